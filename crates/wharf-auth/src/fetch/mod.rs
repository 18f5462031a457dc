//! Requests to authorization servers, which trust nobody.
