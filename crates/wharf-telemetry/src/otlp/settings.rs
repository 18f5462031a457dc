//! Settings of the export: the `OTEL_*` variables of the environment.

use std::{fmt, time::Duration};

use percent_encoding::percent_decode_str;
use wharf_connect::{Origin, Url};

use crate::traces::sampler::Sampler;

/// Error in the `OTEL_*` variables. The message has no secrets.
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::Otlp;
///
/// let variable = |name: &str| match name {
///     "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4317".to_owned()),
///     "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
///     _ => None,
/// };
/// let error = Otlp::from_variables(variable).unwrap_err();
/// assert!(error.to_string().contains("http/protobuf"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpError(String);

impl fmt::Display for OtlpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OtlpError {}

/// Form of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtlpProtocol {
    Json,
    Protobuf,
}

/// Receiver of one signal.
#[derive(Clone, Debug)]
pub(crate) struct OtlpReceiver {
    pub(crate) url: Url,
    pub(crate) origin: Origin,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Duration,
}

/// Queue and batches of spans (`OTEL_BSP_*`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSettings {
    pub(crate) queue: usize,
    pub(crate) batch: usize,
    pub(crate) delay: Duration,
    pub(crate) timeout: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct OtlpSettings {
    pub(crate) traces: Option<OtlpReceiver>,
    pub(crate) metrics: Option<OtlpReceiver>,
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) sampler: Sampler,
    pub(crate) batch: BatchSettings,
    pub(crate) metric_interval: Duration,
}

/// Minimum time between two exports.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Whether receivers may be reached with TLS.
const HAS_TLS: bool = cfg!(feature = "tls");

/// Variables that have an effect, by the signal in their names.
const SUPPORTED: &[&str] = &[
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_METRIC_EXPORT_INTERVAL",
];

/// Returns the variables of OpenTelemetry among these that have no effect.
pub(crate) fn unsupported(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_ignored = |name: &String| name.starts_with("OTEL_") && !SUPPORTED.contains(&&**name);
    let mut names: Vec<_> = names.filter(is_ignored).collect();
    names.sort();
    names
}

/// Returns the names of the variables that have an effect.
pub(crate) fn supported() -> String {
    SUPPORTED.join(", ")
}

/// Reads variables; an empty one is the same as none.
struct Variables<F>(F);

impl OtlpSettings {
    /// Reads the settings; `None` if the variables name no receiver, or turn the export off.
    pub(crate) fn read(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtlpError> {
        let variables = Variables(variable);
        if variables.text("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = variables.receiver("TRACES", "v1/traces")?;
        let metrics = variables.receiver("METRICS", "v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let queue = variables.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)?.max(1) as usize;
        let batch = variables.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?.max(1) as usize;
        Ok(Some(OtlpSettings {
            traces,
            metrics,
            resource: variables.resource()?,
            sampler: variables.sampler()?,
            batch: BatchSettings {
                queue,
                batch: batch.min(queue),
                delay: variables.interval("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
                timeout: variables.millis("OTEL_BSP_EXPORT_TIMEOUT", 30_000)?,
            },
            metric_interval: variables.interval("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
        }))
    }
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, OtlpError> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| {
            OtlpError(format!("{name} is {text:?}: it must be a whole number, such as {default}"))
        })
    }

    fn millis(&self, name: &str, default: u64) -> Result<Duration, OtlpError> {
        self.number(name, default).map(Duration::from_millis)
    }

    /// Reads an interval between exports; at least [`MIN_INTERVAL`], because 0 would keep a core busy.
    fn interval(&self, name: &str, default: u64) -> Result<Duration, OtlpError> {
        self.millis(name, default).map(|it| it.max(MIN_INTERVAL))
    }

    /// Returns the name and the value of a variable, or else of the one for all signals.
    fn of_signal(&self, signal: &str, suffix: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{signal}_{suffix}"),
            format!("OTEL_EXPORTER_OTLP_{suffix}"),
        ];
        names.into_iter().find_map(|name| self.text(&name).map(|value| (name, value)))
    }

    fn receiver(&self, signal: &str, path: &str) -> Result<Option<OtlpReceiver>, OtlpError> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.text(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                let problem = format!("{exporter} is {other:?}: supported are otlp and none");
                return Err(OtlpError(problem));
            }
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let (name, address) = match (self.text(&own), self.text("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(address), _) => (&*own, address),
            (None, Some(base)) => {
                let base = base.trim_end_matches('/');
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{base}/{path}"))
            }
            (None, None) => return Ok(None),
        };
        let (url, origin) = Origin::parse_url(&address)
            .map_err(|error| OtlpError(format!("{name} is no address of a receiver: {error}")))?;
        if origin.is_encrypted() && !HAS_TLS {
            return Err(OtlpError(format!(
                "{name} is {origin}: this program was built without TLS; use http, or build it with the feature `tls`"
            )));
        }
        let timeout = match self.of_signal(signal, "TIMEOUT") {
            Some((name, _)) => self.millis(&name, 10_000)?,
            None => Duration::from_secs(10),
        };
        let headers = match self.of_signal(signal, "HEADERS") {
            Some((name, text)) => pairs(&name, &text)?,
            None => Vec::new(),
        };
        let protocol = self.protocol(signal)?;
        Ok(Some(OtlpReceiver { url, origin, protocol, headers, timeout }))
    }

    fn protocol(&self, signal: &str) -> Result<OtlpProtocol, OtlpError> {
        match self.of_signal(signal, "PROTOCOL") {
            None => Ok(OtlpProtocol::Protobuf),
            Some((name, value)) => match &*value {
                "http/protobuf" => Ok(OtlpProtocol::Protobuf),
                "http/json" => Ok(OtlpProtocol::Json),
                _ => Err(OtlpError(format!(
                    "{name} is {value:?}: supported are http/protobuf and http/json, which receivers have at \
                     port 4318; for others use the feature `otel` with an OpenTelemetry SDK"
                ))),
            },
        }
    }

    fn sampler(&self) -> Result<Sampler, OtlpError> {
        let argument = self.text("OTEL_TRACES_SAMPLER_ARG");
        let ratio = match &argument {
            None => 1.0,
            Some(text) => {
                let ratio = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
                ratio.ok_or_else(|| {
                    let problem = "it must be a number from 0 to 1, such as 0.01";
                    OtlpError(format!("OTEL_TRACES_SAMPLER_ARG is {text:?}: {problem}"))
                })?
            }
        };
        let name = self.text("OTEL_TRACES_SAMPLER");
        Sampler::named(name.as_deref().unwrap_or("parentbased_always_on"), ratio).map_err(|names| {
            let name = name.unwrap_or_default();
            OtlpError(format!("OTEL_TRACES_SAMPLER is {name:?}: supported are {names}"))
        })
    }

    /// Returns the attributes of the resource that the variables set.
    fn resource(&self) -> Result<Vec<(String, String)>, OtlpError> {
        let name = self.text("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
        let given = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let given = pairs("OTEL_RESOURCE_ATTRIBUTES", &given)?;
        Ok(name.into_iter().chain(given).fold(Vec::new(), with_default))
    }
}

impl OtlpSettings {
    /// Adds the attributes of the resource that the variables did not set.
    pub(crate) fn describe(&mut self, service: &str, version: &str) {
        let instance = format!("{:016x}", wharf_model::random_id());
        let ours = [
            ("service.name", service),
            ("service.version", version),
            ("service.instance.id", &instance),
            ("telemetry.sdk.name", "wharf"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.resource = ours.into_iter().fold(std::mem::take(&mut self.resource), with_default);
    }
}

/// Adds an attribute that is not set.
fn with_default(
    mut attributes: Vec<(String, String)>,
    attribute: (String, String),
) -> Vec<(String, String)> {
    if attributes.iter().all(|(key, _)| *key != attribute.0) {
        attributes.push(attribute);
    }
    attributes
}

/// Parses `key=value,key=value`, with percent-encoded values. The error shows no value.
fn pairs(name: &str, text: &str) -> Result<Vec<(String, String)>, OtlpError> {
    let items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let pair = |item: &str| {
        let (key, value) = item.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?.into_owned();
        Some((key.trim().to_owned(), value)).filter(|it| !it.0.is_empty())
    };
    let parsed: Option<Vec<_>> = items.map(pair).collect();
    parsed.ok_or_else(|| OtlpError(format!("{name} is not of the form `key=value,key=value`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, String> {
        let variable =
            |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        let read = OtlpSettings::read(variable);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_exported_without_a_receiver() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for off in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[base, ("OTEL_SDK_DISABLED", "TRUE")],
            &[base, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert!(read(off).unwrap().is_none(), "{off:?}");
        }
    }

    #[test]
    fn a_variable_of_a_signal_precedes_that_of_all() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/base/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/own"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1, authorization=Bearer%20x"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,region=eu"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.01"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
        ]);
        let mut settings = settings.unwrap().unwrap();
        settings.describe("harbour", "1.0.0");
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!(traces.url.as_str(), "http://127.0.0.1:1/own");
        assert_eq!(metrics.url.as_str(), "http://127.0.0.1:4318/base/v1/metrics");
        assert_eq!(
            (traces.protocol, metrics.protocol),
            (OtlpProtocol::Protobuf, OtlpProtocol::Json)
        );
        assert_eq!(traces.timeout, Duration::from_millis(250));
        let header = ("authorization".to_owned(), "Bearer x".to_owned());
        assert_eq!(metrics.headers, [("a".to_owned(), "1".to_owned()), header]);
        let resource =
            |key: &str| settings.resource.iter().find(|it| it.0 == key).unwrap().1.clone();
        assert_eq!(
            ["service.name", "region", "service.version"].map(resource),
            ["mine", "eu", "1.0.0"]
        );
        assert_eq!((settings.batch.queue, settings.batch.batch), (10, 10));
    }

    #[test]
    fn exports_have_a_shortest_interval() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ]);
        let settings = settings.unwrap().unwrap();
        let shortest = Duration::from_millis(100);
        assert_eq!((settings.batch.delay, settings.metric_interval), (shortest, shortest));
    }

    #[test]
    fn the_table_of_variables_is_what_is_read() {
        let read = std::cell::RefCell::new(std::collections::BTreeSet::new());
        let variable = |name: &str| {
            read.borrow_mut().insert(name.to_owned());
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned())
        };
        assert!(OtlpSettings::read(variable).unwrap().is_some());
        let table = SUPPORTED.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(*read.borrow(), table);
        let names = ["PATH", "OTEL_LOGS_EXPORTER", "OTEL_SERVICE_NAME", "OTEL_BLRP_SCHEDULE_DELAY"];
        let ignored = unsupported(names.iter().map(|it| (*it).to_owned()));
        assert_eq!(ignored, ["OTEL_BLRP_SCHEDULE_DELAY", "OTEL_LOGS_EXPORTER"]);
    }

    #[test]
    fn a_receiver_with_tls_needs_the_feature() {
        let read = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otlp.example:4318")]);
        match HAS_TLS {
            true => assert!(read.unwrap().is_some()),
            false => assert!(read.unwrap_err().contains("https://otlp.example:4318: this program")),
        }
    }

    #[test]
    fn a_wrong_value_is_named_without_secrets() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (name, value, reason) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "supported are http/protobuf and http/json"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "supported are otlp and none"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "2", "from 0 to 1"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon", "a whole number"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2", "key=value"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:4318", "no address of a receiver"),
        ] {
            let error = read(&[base, (name, value)]).unwrap_err();
            assert!(error.starts_with(name) && error.contains(reason), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
