//! What can be said about every way to check tokens.

/// Setters for a builder with a `front`, which is an authority by its `gate()`.
macro_rules! common {
    ($builder:ident) => {
        impl $builder {
            $crate::server::builder_macros::published!();

            /// Every request needs this scope. May be called several times; then it needs all of them.
            pub fn scope(mut self, scope: impl Into<String>) -> Self {
                self.front.scopes.push(scope.into());
                self
            }

            /// Whoever was granted `broad` may do all that `narrow` allows, and what that stands for.
            pub fn implies(mut self, broad: impl Into<String>, narrow: impl Into<String>) -> Self {
                self.front.reading.implied.push((broad.into(), narrow.into()));
                self
            }

            /// Reads the caller's roles from this claim: a text, or a list of texts. Dots lead into objects, as in
            /// `realm_access.roles`.
            pub fn roles(mut self, claim: &str) -> Self {
                self.front.reading.roles = Some(claim.split('.').map(str::to_owned).collect());
                self
            }

            /// How tokens that are bound to a key are treated, and says so to clients.
            pub fn dpop(mut self, dpop: $crate::server::Dpop) -> Self {
                (self.front.dpop, self.front.tells_dpop) = (dpop, true);
                self
            }

            /// Says to clients that tokens are bound to their certificates (RFC 8705). Tokens that are bound are only
            /// taken with their certificate, whether this is said or not.
            pub fn certificate_bound(mut self) -> Self {
                self.front.binds_certificates = true;
                self
            }

            /// The server's name for people who are asked for their consent.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.front.name = Some(name.into());
                self
            }

            /// Where to read about the server.
            pub fn documentation(mut self, url: impl Into<String>) -> Self {
                self.front.documentation = Some(url.into());
                self
            }
        }

        impl wharf_model::Authenticator for $builder {
            fn admit(&self, knock: &wharf_model::AuthRequest<'_>) -> wharf_model::AuthDecision {
                self.gate().admit(knock)
            }

            $crate::server::builder_macros::pages!();

            fn join(&self, stores: &wharf_model::Stores) {
                self.gate().join(stores);
            }

            fn problems(&self) -> Vec<String> {
                self.problems()
            }
        }
    };
}
pub(crate) use common;

/// Setters of a builder with a `front`, for what is published whoever decides.
macro_rules! published {
    () => {
        /// What this server is called where its metadata is published: its URL, as clients know it.
        pub fn resource(mut self, resource: impl Into<String>) -> Self {
            self.front.resource = Some(resource.into());
            self
        }

        /// Publishes these scopes, beside those that every request needs. They should be few: clients ask for all of
        /// them at once. Others are asked for when they are needed.
        pub fn scopes_supported<I>(mut self, scopes: I) -> Self
        where
            I: IntoIterator,
            I::Item: Into<String>,
        {
            self.front.published.extend(scopes.into_iter().map(Into::into));
            self
        }
    };
}
pub(crate) use published;

/// What an authority with a `front` says to clients.
macro_rules! pages {
    () => {
        fn denied(
            &self,
            error: &wharf_model::Error,
            knock: &wharf_model::AuthRequest<'_>,
            principal: &wharf_model::Principal,
        ) -> Vec<http::HeaderValue> {
            self.front.denied(error, knock.headers, principal)
        }

        fn paths(&self) -> Vec<String> {
            self.front.paths()
        }

        fn page(
            &self,
            request: http::Request<bytes::Bytes>,
        ) -> wharf_model::BoxFuture<http::Response<bytes::Bytes>> {
            let response = self.front.page(&request);
            Box::pin(async move { response })
        }
    };
}
pub(crate) use pages;

/// The setter of a builder that asks issuers, by its `download`.
macro_rules! downloads {
    () => {
        /// How issuers are asked: with certificates or addresses of a company's own network, for example.
        ///
        /// ```
        /// use wharf_auth::{fetch::Fetch, server::Jwt};
        ///
        /// let authority = Jwt::issuer("https://id.internal.example")
        ///     .audience("https://mcp.internal.example/mcp")
        ///     .download(Fetch::new().allow_private());
        /// # let _ = authority;
        /// ```
        pub fn download(mut self, download: impl $crate::server::Download) -> Self {
            self.download = Some(std::sync::Arc::new(download));
            self
        }

        fn downloading(&self) -> std::sync::Arc<dyn $crate::server::Download> {
            match &self.download {
                Some(download) => download.clone(),
                None => std::sync::Arc::new($crate::fetch::Fetch::new()),
            }
        }
    };
}
pub(crate) use downloads;
