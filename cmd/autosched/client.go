package main

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
	"github.com/autosched/autosched/internal/units"
)

// clientFlags are those of commands that call the service.
type clientFlags struct {
	connectFlags
	timeout time.Duration
	json    bool
	reason  string // of changes, for the audit log
	// validateOnly has a change checked and not stored.
	validateOnly bool
	etag         string // of what a change is of
}

// addReason adds the flag of commands that change something.
func (f *clientFlags) addReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people and 'autosched audit list'")
}

func (f *clientFlags) addValidateOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.validateOnly, "validate-only", false, "check only, store nothing")
}

// addEtag adds the flag of changes that are not to undo another's.
func (f *clientFlags) addEtag(cmd *cobra.Command, get string) {
	cmd.Flags().StringVar(&f.etag, "etag", "",
		"change nothing if another change came since: the etag that '"+get+" --json' shows")
}

func (f *clientFlags) add(cmd *cobra.Command) {
	f.connectFlags.add(cmd)
	fl := cmd.PersistentFlags()
	fl.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long a call may take")
	fl.BoolVar(&f.json, "json", false, "print JSON for programs")
}

// client is a connection to the service.
type client struct {
	tuning   pb.TuningServiceClient
	config   pb.ConfigurationServiceClient
	upkeep   pb.MaintenanceServiceClient
	audit    pb.AuditServiceClient
	rounds   pb.RoundServiceClient
	ask      pb.ExplanationServiceClient
	studies  pb.StudyServiceClient
	work     pb.OperationServiceClient
	samples  pb.TelemetryServiceClient
	findings pb.FindingServiceClient
	metrics  pb.MetricServiceClient

	workloads pb.WorkloadServiceClient
}

// call connects and runs f, within the timeout unless f streams.
func (f *clientFlags) call(ctx context.Context, streams bool, run func(context.Context, *client) error) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout: %v is not positive", f.timeout)}
	}
	conn, err := f.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if !streams {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	if f.reason != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "autosched-reason-bin", f.reason)
	}
	return plainError(f.server, run(ctx,
		&client{pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn),
			pb.NewMaintenanceServiceClient(conn), pb.NewAuditServiceClient(conn),
			pb.NewRoundServiceClient(conn), pb.NewExplanationServiceClient(conn),
			pb.NewStudyServiceClient(conn), pb.NewOperationServiceClient(conn), pb.NewTelemetryServiceClient(conn),
			pb.NewFindingServiceClient(conn), pb.NewMetricServiceClient(conn),
			pb.NewWorkloadServiceClient(conn)}))
}

// about calls the service about the scheduler that the arguments name.
func (f *clientFlags) about(cmd *cobra.Command, args []string,
	run func(ctx context.Context, c *client, name string) error) error {
	name, err := schedulerArg(args)
	if err != nil {
		return err
	}
	return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error { return run(ctx, c, name) })
}

// show prints an answer of the service: as JSON for programs, or by print for
// people.
func (f *clientFlags) show(cmd *cobra.Command, answer proto.Message, print func(io.Writer) error) error {
	if f.json {
		return printProto(cmd.OutOrStdout(), answer, false)
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

// say is show for an answer of one line.
func (f *clientFlags) say(cmd *cobra.Command, answer proto.Message, format string, args ...any) error {
	return f.show(cmd, answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	})
}

// plainError says what the service answered in words for people, one bad field
// a line.
func plainError(server string, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	switch st.Code() {
	case codes.Unavailable:
		why, hint := reason(err), "is 'autosched serve' running there?"
		if tlsFailed(err) || strings.Contains(why, "server preface") {
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

// tlsFailed reports whether the two sides do not accept each other's certificates or
// protocol, which waiting does not change.
func tlsFailed(err error) bool {
	return strings.Contains(reason(err), "tls: ") || strings.Contains(reason(err), "handshake failed")
}

// reason is why a transport failed, without the names of the layers above it.
func reason(err error) string {
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

// printProto prints a message as JSON with all fields but messages that are unset: the same
// bytes for the same message, on one line if compact.
func printProto(w io.Writer, m proto.Message, compact bool) error {
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

// schedulerArg reads a scheduler's id or name.
func schedulerArg(args []string) (string, error) {
	if len(args) != 1 {
		return "", usageError{errors.New("want the name of one scheduler; 'autosched scheduler list' shows them")}
	}
	return "schedulers/" + strings.TrimPrefix(args[0], "schedulers/"), nil
}

// plural is a number of things: 1 rule, 2 rules.
func plural(n int, thing string) string {
	return units.Plural(n, thing)
}

func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// enumWord is an enum's value as flags take it: auto for AUTO. States print as the API has them.
func enumWord(e fmt.Stringer) string { return strings.ToLower(e.String()) }
