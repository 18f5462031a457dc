//! SSRF check: whether a connection to an address is allowed.

use std::net::SocketAddr;

use crate::fetch::{
    AddressClass, FetchError, address_class,
    connect::Connector,
    target_url::{TargetHost, TargetUrl},
};

impl Connector {
    pub(super) fn is_allowed(&self, host: &TargetHost, address: &SocketAddr) -> bool {
        match address_class(address.ip()) {
            AddressClass::Public => true,
            AddressClass::Loopback => self.loopback && (self.private || host.is_loopback()),
            AddressClass::Private => self.private,
            AddressClass::Reserved => false,
        }
    }
}

pub(super) fn forbidden(target: &TargetUrl, address: &SocketAddr) -> FetchError {
    let what = match address_class(address.ip()) {
        AddressClass::Loopback => "this machine",
        AddressClass::Private => "a private network",
        _ => "a reserved address",
    };
    FetchError::Forbidden(format!(
        "{target} was not requested: it leads to {what} ({}), which SSRF protection rejects; allow private addresses only for hosts that you trust",
        address.ip()
    ))
}
