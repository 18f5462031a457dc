"""Receiver of OTLP over HTTP: prints what the generated classes of OpenTelemetry read, one JSON object per line."""

import base64
import http.server
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

IDS = ("traceId", "spanId", "parentSpanId")


def with_base64(value):
    """OTLP has hexadecimal ids in JSON, where Protocol Buffers have base64."""
    if isinstance(value, list):
        return [with_base64(it) for it in value]
    if not isinstance(value, dict):
        return value
    hexadecimal = lambda it: base64.b64encode(bytes.fromhex(it)).decode()
    return {k: hexadecimal(v) if k in IDS else with_base64(v) for k, v in value.items()}


def attributes(pairs):
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in pairs}


def spans(request):
    for of_resource in request.resource_spans:
        service = attributes(of_resource.resource.attributes)["service.name"]
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield {
                    "service": service,
                    "scope": of_scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": Span.SpanKind.Name(span.kind),
                    "status": Status.StatusCode.Name(span.status.code),
                    "attributes": attributes(span.attributes),
                    "ends_after_start": span.end_time_unix_nano >= span.start_time_unix_nano > 0,
                }


def histograms(request):
    for of_resource in request.resource_metrics:
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                for point in metric.histogram.data_points:
                    yield {
                        "metric": metric.name,
                        "unit": metric.unit,
                        "count": point.count,
                        "buckets": list(point.bucket_counts),
                        "bounds": list(point.explicit_bounds),
                        "attributes": attributes(point.attributes),
                    }


SIGNALS = {
    "/v1/traces": (ExportTraceServiceRequest, spans),
    "/v1/metrics": (ExportMetricsServiceRequest, histograms),
}


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind, read = SIGNALS[self.path]
        if self.headers["Content-Type"] == "application/json":
            request = json_format.ParseDict(with_base64(json.loads(body)), kind())
        else:
            request = kind.FromString(body)
        for found in read(request):
            print(json.dumps(found), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
sys.stderr.reconfigure(line_buffering=True)
server.serve_forever()
