package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/schema"
)

// ClientFlags are the flags of commands that call the service.
type ClientFlags struct {
	ConnectFlags
	Timeout time.Duration
	JSON    bool
	Reason  string // of changes, for the audit log
	// ValidateOnly has a change checked and not stored.
	ValidateOnly bool
	Etag         string // of the changed resource
}

// AddReason adds the flag of commands that change something.
func (f *ClientFlags) AddReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Reason, "reason", "", "why, for people and 'autosched admin audit list'")
}

// AddValidateOnly adds the flag of a dry run.
func (f *ClientFlags) AddValidateOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.ValidateOnly, "validate-only", false, "check only, store nothing")
}

// AddEtag adds the flag of changes that are not to undo another's.
func (f *ClientFlags) AddEtag(cmd *cobra.Command, get string) {
	cmd.Flags().StringVar(&f.Etag, "etag", "",
		"change nothing if another change came since: the etag that '"+get+" --json' shows")
}

// Add adds the flags of the connection, of the timeout and of the output.
func (f *ClientFlags) Add(cmd *cobra.Command) {
	f.ConnectFlags.Add(cmd)
	fl := cmd.PersistentFlags()
	fl.DurationVar(&f.Timeout, "timeout", 10*time.Second, "how long a call may take")
	fl.BoolVar(&f.JSON, "json", false, "print JSON for programs")
}

// Client is a connection to the service.
type Client struct {
	Tuning         pb.TuningServiceClient
	Configurations pb.ConfigurationServiceClient
	Maintenance    pb.MaintenanceServiceClient
	Audit          pb.AuditServiceClient
	Rounds         pb.RoundServiceClient
	Explanations   pb.ExplanationServiceClient
	Studies        pb.StudyServiceClient
	Operations     pb.OperationServiceClient
	Telemetry      pb.TelemetryServiceClient
	Findings       pb.FindingServiceClient
	Metrics        pb.MetricServiceClient

	Workloads pb.WorkloadServiceClient
}

// Call connects and runs f, within the timeout unless f streams.
func (f *ClientFlags) Call(ctx context.Context, streams bool, run func(context.Context, *Client) error) error {
	if f.Timeout <= 0 {
		return UsageError{fmt.Errorf("--timeout: %v is not positive", f.Timeout)}
	}
	conn, err := f.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if !streams {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	if f.Reason != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "autosched-reason-bin", f.Reason)
	}
	return PlainError(f.Server, run(ctx,
		&Client{pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn),
			pb.NewMaintenanceServiceClient(conn), pb.NewAuditServiceClient(conn),
			pb.NewRoundServiceClient(conn), pb.NewExplanationServiceClient(conn),
			pb.NewStudyServiceClient(conn), pb.NewOperationServiceClient(conn), pb.NewTelemetryServiceClient(conn),
			pb.NewFindingServiceClient(conn), pb.NewMetricServiceClient(conn),
			pb.NewWorkloadServiceClient(conn)}))
}

// About calls the service about the scheduler that the arguments name.
func (f *ClientFlags) About(cmd *cobra.Command, args []string,
	run func(ctx context.Context, c *Client, name string) error) error {
	return f.Named(cmd, args, SchedulerArg, run)
}

// Show prints an answer of the service: as JSON for programs, or by print for
// people.
func (f *ClientFlags) Show(cmd *cobra.Command, answer proto.Message, print func(io.Writer) error) error {
	if f.JSON {
		return PrintProto(cmd.OutOrStdout(), answer, false)
	}
	return print(printable{cmd.OutOrStdout()})
}

// printable has question marks for control characters of texts that others wrote, such as the reason of a refusal: a
// terminal would obey them.
type printable struct{ io.Writer }

// Write implements [io.Writer].
func (p printable) Write(text []byte) (int, error) {
	_, err := p.Writer.Write(bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, text))
	return len(text), err
}

// Say is show for an answer of one line.
func (f *ClientFlags) Say(cmd *cobra.Command, answer proto.Message, format string, args ...any) error {
	return f.Show(cmd, answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	})
}

// PlainError is the service's answer in words for people, one bad field
// a line.
func PlainError(server string, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	switch st.Code() {
	case codes.Unavailable:
		why, hint := TransportReason(err), "is 'autosched serve' running there?"
		if TlsFailed(err) || strings.Contains(why, "server preface") {
			hint = "does it serve TLS, as --tls-ca, --tls-cert and --tls-key say? (docs/operations.md#access)"
		}
		return fmt.Errorf("cannot reach the service at %s: %s\n%s", server, why, hint)
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return fmt.Errorf("the service at %s did not answer in time", server)
	}
	var lines []string
	for _, d := range st.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.GetFieldViolations() {
				lines = append(lines, fmt.Sprintf("  %s: %s", v.GetField(), v.GetDescription()))
			}
		}
	}
	if len(lines) > 0 {
		return fmt.Errorf("the service refused the request:\n%s", strings.Join(lines, "\n"))
	}
	return errors.New(st.Message())
}

// TlsFailed reports whether the two sides do not accept each other's certificates or
// protocol, which waiting does not change.
func TlsFailed(err error) bool {
	return strings.Contains(TransportReason(err), "tls: ") || strings.Contains(TransportReason(err), "handshake failed")
}

// TransportReason is why a transport failed, without the names of the layers above it.
func TransportReason(err error) string {
	var inner interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &inner) {
		return err.Error()
	}
	text := inner.GRPCStatus().Message()
	if _, after, ok := strings.Cut(text, "Error while dialing: "); ok {
		text = strings.TrimSuffix(after, `"`)
	}
	return text
}

// protoSchema names a message's schema: configuration/v1, and configurations/v1 for the
// answer of ListConfigurations.
func protoSchema(m proto.Message) string {
	name := m.ProtoReflect().Descriptor().Name()
	words := strings.TrimSuffix(strings.TrimPrefix(string(name), "List"), "Response")
	return strings.ToLower(words[:1]+upper.ReplaceAllString(words[1:], "-$0")) + "/v1"
}

var upper = regexp.MustCompile("[A-Z]")

// PrintProto prints a message as JSON with all fields but messages that are unset: the same
// bytes for the same message, on one line if compact.
func PrintProto(w io.Writer, m proto.Message, compact bool) error {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	if !compact {
		return schema.Write(w, protoSchema(m), json.RawMessage(raw))
	}
	line, err := schema.Marshal(protoSchema(m), json.RawMessage(raw))
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", line)
	}
	return err
}

// SchedulerArg reads a scheduler's id or name.
func SchedulerArg(args []string) (string, error) {
	if len(args) != 1 {
		return "", UsageError{errors.New("want the name of one scheduler; 'autosched scheduler list' shows them")}
	}
	return "schedulers/" + strings.TrimPrefix(args[0], "schedulers/"), nil
}
