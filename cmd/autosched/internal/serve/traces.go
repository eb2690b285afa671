package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
)

// traceFlush is how long the last spans may take when the service stops.
const traceFlush = 2 * time.Second

// traceFlags say where traces go.
type traceFlags struct {
	endpoint string
	ratio    float64
}

func (f *traceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.endpoint, "otlp-endpoint", "",
		"URL of an OpenTelemetry collector of traces, OTLP over gRPC; https, or http to loopback (default: none)")
	fl.Float64Var(&f.ratio, "otlp-ratio", 1, "share of traces that are sent, unless the caller says")
}

func (f *traceFlags) check() error {
	if !(f.ratio >= 0 && f.ratio <= 1) {
		return cli.Usage(fmt.Errorf("--otlp-ratio: %v is not from 0 to 1", f.ratio))
	}
	if f.endpoint == "" {
		return nil
	}
	at, err := url.Parse(f.endpoint)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil:
		return cli.Usage(fmt.Errorf("--otlp-endpoint: want a URL such as https://collector.example.org:4317"))
	case at.Scheme == "http" && !apiclient.Loopback(at.Hostname()):
		return cli.Usage(fmt.Errorf("--otlp-endpoint: %s is not a loopback address: use https", at.Hostname()))
	}
	return nil
}

// provider sends spans until it is shut down, nil without an endpoint. A collector that does not
// answer is logged and costs spans only.
func (f *traceFlags) provider(ctx context.Context, log *slog.Logger) (*trace.TracerProvider, error) {
	if f.endpoint == "" {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "err", err) }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(f.endpoint))
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithExportTimeout(5*time.Second)),
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(f.ratio))),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "autosched"),
			attribute.String("service.version", cli.Built().Version)))), nil
}
