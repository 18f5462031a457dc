//! Builder methods that all token verifiers share.

/// Implements the setters and `Authenticator` for a builder with a `metadata` field and an
/// `authenticator()` method.
macro_rules! verifier_builder {
    ($builder:ident) => {
        impl $builder {
            $crate::server::builder_macros::metadata_setters!();

            /// Requires this scope for every request. Calls accumulate: all scopes are required.
            pub fn scope(mut self, scope: impl Into<String>) -> Self {
                self.metadata.scopes.push(scope.into());
                self
            }

            /// Declares that scope `broad` includes scope `narrow` and everything that `narrow` includes.
            pub fn implies(mut self, broad: impl Into<String>, narrow: impl Into<String>) -> Self {
                self.metadata.mapping.implied.push((broad.into(), narrow.into()));
                self
            }

            /// Reads the caller's roles from this claim: a string or an array of strings. Dots select
            /// nested members, as in `realm_access.roles`.
            pub fn roles(mut self, claim: &str) -> Self {
                self.metadata.mapping.roles = Some(claim.split('.').map(str::to_owned).collect());
                self
            }

            /// Configures DPoP, and announces it in the metadata.
            pub fn dpop(mut self, dpop: $crate::server::Dpop) -> Self {
                (self.metadata.dpop, self.metadata.announces_dpop) = (dpop, true);
                self
            }

            /// Announces in the metadata that tokens are bound to client certificates (RFC 8705). A bound
            /// token is accepted only with its certificate, announced or not.
            pub fn certificate_bound(mut self) -> Self {
                self.metadata.binds_certificates = true;
                self
            }

            /// Sets the server's name, which authorization servers show on the consent page.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.metadata.name = Some(name.into());
                self
            }

            /// Sets the URL of the server's documentation.
            pub fn documentation(mut self, url: impl Into<String>) -> Self {
                self.metadata.documentation = Some(url.into());
                self
            }
        }

        impl wharf_model::Authenticator for $builder {
            fn admit(&self, request: &wharf_model::AuthRequest<'_>) -> wharf_model::AuthDecision {
                self.authenticator().admit(request)
            }

            $crate::server::builder_macros::metadata_endpoints!();

            fn use_stores(&self, stores: &wharf_model::Stores) {
                self.authenticator().use_stores(stores);
            }

            fn problems(&self) -> Vec<String> {
                self.problems()
            }
        }
    };
}
pub(crate) use verifier_builder;

/// Setters for the published metadata, for a builder with a `metadata` field.
macro_rules! metadata_setters {
    () => {
        /// Sets the resource identifier (RFC 9728): the server's URL, as clients use it.
        pub fn resource(mut self, resource: impl Into<String>) -> Self {
            self.metadata.resource = Some(resource.into());
            self
        }

        /// Publishes these scopes in addition to the required ones. Publish few: clients request all of
        /// them at once. Other scopes are requested when a call needs them (step-up authorization).
        pub fn scopes_supported<I>(mut self, scopes: I) -> Self
        where
            I: IntoIterator,
            I::Item: Into<String>,
        {
            self.metadata.extra_scopes.extend(scopes.into_iter().map(Into::into));
            self
        }
    };
}
pub(crate) use metadata_setters;

/// Implements the metadata endpoint and the challenges of an `Authenticator` with a `metadata` field.
macro_rules! metadata_endpoints {
    () => {
        fn denied(
            &self,
            error: &wharf_model::Error,
            request: &wharf_model::AuthRequest<'_>,
            principal: &wharf_model::Principal,
        ) -> Vec<http::HeaderValue> {
            self.metadata.denied(error, request.headers, principal)
        }

        fn resource_url(&self) -> Option<String> {
            self.metadata.url().map(Into::into)
        }

        fn paths(&self) -> Vec<String> {
            self.metadata.paths()
        }

        fn page(
            &self,
            request: http::Request<bytes::Bytes>,
        ) -> wharf_model::BoxFuture<http::Response<bytes::Bytes>> {
            let response = self.metadata.page(&request);
            Box::pin(async move { response })
        }
    };
}
pub(crate) use metadata_endpoints;

/// Setter of the `download` field, for a builder that sends requests to issuers.
macro_rules! download_setter {
    () => {
        /// Sets the HTTP client for requests to issuers, for example with private addresses or other root
        /// certificates.
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

        fn downloader(&self) -> std::sync::Arc<dyn $crate::server::Download> {
            match &self.download {
                Some(download) => download.clone(),
                None => std::sync::Arc::new($crate::fetch::Fetch::new()),
            }
        }
    };
}
pub(crate) use download_setter;
