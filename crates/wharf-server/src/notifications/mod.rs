//! Subscriptions, and change notifications to them.

pub(crate) mod cluster;
pub(crate) mod custom;
pub(crate) mod pending;
pub(crate) mod subscription_limits;
mod subscription_table;
pub(crate) mod url_elicitations;

pub(crate) use self::subscription_table::{
    ActiveSubscription, SubscriptionOptions, SubscriptionTable, restrict,
};
