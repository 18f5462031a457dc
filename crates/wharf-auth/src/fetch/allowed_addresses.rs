//! Addresses that requests may reach: public ones, loopback where a URL names it, and private ones if allowed.

use wharf_connect::AddressPolicy;

use crate::fetch::Fetch;
#[cfg(feature = "client")]
use crate::fetch::{FetchError, target_url::TargetUrl};

/// Policy of [`Fetch::new`].
pub(super) fn default_policy() -> AddressPolicy {
    AddressPolicy::PUBLIC.loopback(true)
}

impl Fetch {
    /// A copy that rejects loopback as well: for URLs that a remote party supplied.
    #[must_use]
    pub fn public_only(&self) -> Fetch {
        self.clone().with_policy(|policy| policy.loopback(false))
    }

    /// Allows private addresses too, for example for an identity provider inside a company's network.
    #[must_use]
    pub fn allow_private(self) -> Fetch {
        self.with_policy(|policy| policy.private(true))
    }

    fn with_policy(mut self, change: impl FnOnce(AddressPolicy) -> AddressPolicy) -> Fetch {
        let policy = change(self.connector.address_policy());
        self.connector = self.connector.addresses(policy);
        self
    }

    /// Returns true if private addresses are allowed.
    #[cfg(feature = "client")]
    pub(crate) fn allows_private(&self) -> bool {
        self.connector.address_policy().allows_private()
    }

    /// Checks that `url` may be reached: for pages that a browser opens.
    #[cfg(feature = "client")]
    pub(crate) async fn check_reachable(&self, url: &str) -> Result<(), FetchError> {
        let target = TargetUrl::parse(url)?;
        Ok(self.connector.check(&target.origin).await?)
    }
}
