//! README and guide: their examples compile and run as doc tests.

#[cfg(all(feature = "auth", feature = "client", feature = "redis"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/asking.md")]
struct AskingGuide;

#[doc = include_str!("../../../docs/serving.md")]
struct ServingGuide;

#[cfg(all(feature = "client", feature = "server"))]
#[doc = include_str!("../../../docs/client.md")]
struct ClientGuide;

#[doc = include_str!("../../../docs/extensions.md")]
struct ExtensionsGuide;

#[cfg(feature = "skills")]
#[doc = include_str!("../../../docs/skills.md")]
struct SkillsGuide;
#[cfg(all(feature = "apps", feature = "server"))]
#[doc = include_str!("../../../docs/apps.md")]
struct AppsGuide;

#[doc = include_str!("../../../docs/tasks.md")]
struct TasksGuide;

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/operations.md")]
struct OperationsGuide;

#[cfg(feature = "contract")]
#[doc = include_str!("../../../docs/stores.md")]
struct StoresGuide;

#[cfg(feature = "axum")]
#[doc = include_str!("../../../docs/http.md")]
struct HttpGuide;

#[cfg(all(feature = "server", feature = "server-card"))]
#[doc = include_str!("../../../docs/publishing.md")]
struct PublishingGuide;

#[cfg(all(feature = "auth", feature = "client"))]
#[doc = include_str!("../../../docs/authorization.md")]
struct AuthorizationGuide;

#[cfg(feature = "oauth-proxy")]
#[doc = include_str!("../../../docs/oauth-proxy.md")]
struct OAuthProxyGuide;

#[doc = include_str!("../../../docs/cli.md")]
struct CliGuide;
