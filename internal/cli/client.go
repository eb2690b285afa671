package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	apiclient "github.com/autosched/autosched/client"
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
	cmd.Flags().StringVar(&f.Reason, "reason", "", "")
}

// AddValidateOnly adds the flag of a dry run.
func (f *ClientFlags) AddValidateOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.ValidateOnly, "validate-only", false, "")
}

// AddEtag adds the flag of changes that are not to undo another's.
func (f *ClientFlags) AddEtag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Etag, "etag", "", "")
}

// Add adds the flags of the connection, of the timeout and of the output.
func (f *ClientFlags) Add(cmd *cobra.Command) {
	f.ConnectFlags.Add(cmd)
	fl := cmd.PersistentFlags()
	fl.DurationVar(&f.Timeout, "timeout", 10*time.Second, "")
	fl.BoolVar(&f.JSON, "json", false, "")
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
	Jobs      pb.JobServiceClient
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
			pb.NewWorkloadServiceClient(conn), pb.NewJobServiceClient(conn)}))
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
	return fitted(printable{cmd.OutOrStdout()}, cmd.OutOrStdout(), print)
}

// printable has question marks for control characters of texts that others wrote, such as the reason of a refusal: a
// terminal would obey them.
type printable struct{ io.Writer }

// Write implements [io.Writer].
func (p printable) Write(text []byte) (int, error) {
	_, err := p.Writer.Write(bytes.Map(shown, text))
	return len(text), err
}

func shown(r rune) rune {
	if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && r != '\n' && r != '\t' {
		return '?'
	}
	return r
}

// OneLine is a text that others wrote, such as a reason, for a cell or a line: another line of it could pass for a row.
func OneLine(text string) string { return strings.Join(strings.Fields(strings.Map(shown, text)), " ") }

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

// Arg reads the name of a resource from the arguments of a command.
type Arg func(args []string) (name string, err error)

// Asks returns the run of a command that asks the service once about the resource that its arguments name, and prints
// the answer.
func Asks[A proto.Message](f *ClientFlags, arg Arg, call func(context.Context, *Client, string) (A, error),
	print func(io.Writer, A) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return Ask(f, cmd, args, arg, call, print) }
}

// Ask is Asks within a run.
func Ask[A proto.Message](f *ClientFlags, cmd *cobra.Command, args []string, arg Arg,
	call func(context.Context, *Client, string) (A, error), print func(io.Writer, A) error) error {
	return f.Named(cmd, args, arg, func(ctx context.Context, c *Client, name string) error {
		got, err := call(ctx, c, name)
		return f.Answer(cmd, got, err, func(w io.Writer) error { return print(w, got) })
	})
}

// Named calls the service about the resource that the arguments name.
func (f *ClientFlags) Named(cmd *cobra.Command, args []string, arg Arg,
	run func(ctx context.Context, c *Client, name string) error) error {
	name, err := arg(args)
	if err != nil {
		return err
	}
	return f.Call(cmd.Context(), false, func(ctx context.Context, c *Client) error { return run(ctx, c, name) })
}

// Answer shows what a call returned.
func (f *ClientFlags) Answer(cmd *cobra.Command, got proto.Message, err error, print func(io.Writer) error) error {
	if err != nil {
		return err
	}
	return f.Show(cmd, got, print)
}

// Reply is Answer in a line.
func (f *ClientFlags) Reply(cmd *cobra.Command, got proto.Message, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return f.Say(cmd, got, format, args...)
}

// Outcome is Reply to a change: done, or would of a dry run, which stored nothing.
func (f *ClientFlags) Outcome(cmd *cobra.Command, got proto.Message, err error, would, done string) error {
	if f.ValidateOnly {
		done = would + "; nothing was stored"
	}
	return f.Reply(cmd, got, err, "%s", done)
}

// AddChange adds the flags of commands that change a resource: AddReason, AddValidateOnly and, if there is an etag,
// AddEtag.
func (f *ClientFlags) AddChange(cmd *cobra.Command, etag bool) {
	f.AddReason(cmd)
	f.AddValidateOnly(cmd)
	if etag {
		f.AddEtag(cmd)
	}
}

// page is an answer of a list.
type page interface {
	proto.Message
	GetNextPageToken() string
}

// Pages asks for all pages of a list and returns them as one.
func Pages[A page](ask func(token string) (A, error)) (A, error) {
	all, err := ask("")
	for token := all.GetNextPageToken(); err == nil && token != ""; {
		var next A
		if next, err = ask(token); err == nil {
			proto.Merge(all, next)
			token = next.GetNextPageToken()
		}
	}
	if m := all.ProtoReflect(); m.IsValid() {
		m.Clear(m.Descriptor().Fields().ByName("next_page_token"))
	}
	return all, err
}

// CheckLimit checks the flag --limit of a list.
func CheckLimit(limit int32) error {
	if limit < 1 || limit > 1000 {
		return Usage(fmt.Errorf("--limit: %d is not from 1 to 1000", limit))
	}
	return nil
}

// Exactly returns the check of a command that takes n arguments.
func Exactly(n int, otherwise string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return Usage(fmt.Errorf("%s", otherwise))
		}
		return nil
	}
}

// Instant is a time as people and flags write it.
func Instant(t *timestamppb.Timestamp) string { return t.AsTime().Format(time.RFC3339) }

// ParseInstant reads the time of a flag, nil without one.
func ParseInstant(flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, Usage(fmt.Errorf("%s: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", flag, text))
	}
	return timestamppb.New(at), nil
}

// WindowFlags bound a time of the service.
type WindowFlags struct{ from, to string }

// Add adds the flags, with their defaults in words.
func (w *WindowFlags) Add(cmd *cobra.Command, from, to string) {
	cmd.Flags().StringVar(&w.from, "from", "", "(default: "+from+"; RFC 3339 alone)")
	cmd.Flags().StringVar(&w.to, "to", "", "(default: "+to+")")
}

// Read reads the flags, nil for those that are not given.
func (w *WindowFlags) Read() (from, to *timestamppb.Timestamp, err error) {
	if from, err = ParseInstant("--from", w.from); err != nil {
		return nil, nil, err
	}
	to, err = ParseInstant("--to", w.to)
	return from, to, err
}

// Fields are rows of a name and a text in a table.
type Fields struct{ io.Writer }

// Add writes the rows that have a text: pairs of a name and a text.
func (f Fields) Add(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(f, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
}

// CheckID checks the flag --id of a scheduler.
func CheckID(id string) error {
	if err := convert.CheckID(id); err != nil {
		return UsageError{fmt.Errorf("--id: %w", err)}
	}
	return nil
}

// ParametersLine lists the parameters of a trial as --set takes them, a blank before each.
func ParametersLine(t *pb.Trial) string {
	text := ""
	for _, id := range slices.Sorted(maps.Keys(t.GetParameters())) {
		text += " " + id + "=" + plainValue(t.GetParameters()[id])
	}
	return text
}

// plainValue is a value as --set takes it.
func plainValue(v *structpb.Value) string {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(k.NumberValue, 'g', -1, 64)
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(k.BoolValue)
	}
	var parts []string
	for _, one := range v.GetListValue().GetValues() {
		parts = append(parts, plainValue(one))
	}
	return strings.Join(parts, ",")
}

// ListTrials lists all trials of a study.
func ListTrials(ctx context.Context, c *Client, name string, l ListFlags) (*pb.ListTrialsResponse, error) {
	return Pages(func(page string) (*pb.ListTrialsResponse, error) {
		return c.Studies.ListTrials(ctx, &pb.ListTrialsRequest{Parent: name, PageSize: 1000, PageToken: page,
			Filter: l.Filter, OrderBy: l.OrderBy})
	})
}

// WorkloadArg reads SCHEDULER/WORKLOAD, or the full name of a workload.
func WorkloadArg(text string) (string, error) {
	short := strings.TrimPrefix(text, "schedulers/")
	if parts := strings.Split(short, "/"); len(parts) == 2 {
		return "schedulers/" + parts[0] + "/workloads/" + parts[1], nil
	} else if len(parts) == 3 && parts[1] == "workloads" {
		return "schedulers/" + short, nil
	}
	return "", UsageError{fmt.Errorf("%q is not a workload, as SCHEDULER/WORKLOAD; 'autosched scheduler workload list SCHEDULER' shows "+
		"them", text)}
}

// uploadPart is how much of a file one request carries, in bytes.
const uploadPart = 256 << 10

// SendWorkload uploads a file in parts.
func SendWorkload(ctx context.Context, c *Client, first *pb.UploadWorkloadRequest,
	in io.Reader) (*pb.UploadWorkloadResponse, error) {
	stream, err := c.Workloads.UploadWorkload(ctx)
	if err != nil {
		return nil, err
	}
	req := first
	for {
		part := make([]byte, uploadPart)
		n, end := io.ReadFull(in, part)
		if end != nil && !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
			return nil, end
		}
		req.Data = part[:n]
		if err := stream.Send(req); errors.Is(err, io.EOF) || end != nil {
			break // the answer says why
		} else if err != nil {
			return nil, err
		}
		req = &pb.UploadWorkloadRequest{}
	}
	return stream.CloseAndRecv()
}

// ListFlags are the flags of lists of the service.
type ListFlags struct{ Filter, OrderBy string }

// Add adds the flags; that of the order to lists that have one.
func (l *ListFlags) Add(cmd *cobra.Command, ordered bool) {
	cmd.Flags().StringVar(&l.Filter, "filter", "", "")
	if ordered {
		cmd.Flags().StringVar(&l.OrderBy, "order-by", "", "")
	}
}

// ServeAccess are the flags of serve for encryption and roles.
type ServeAccess struct {
	Files          access.Files
	AllowPlaintext bool
	allowAnonymous bool
}

// Add adds the flags of the listener's certificate and roles.
func (a *ServeAccess) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.Files.Cert, "tls-cert", "", "")
	fl.StringVar(&a.Files.Key, "tls-key", "", "")
	a.AddCallers(cmd)
}

// AddCallers adds the flags about callers.
func (a *ServeAccess) AddCallers(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.Files.ClientCA, "client-ca", "", "PEM file of the authorities of client certificates (needs --roles)")
	fl.StringVar(&a.Files.Roles, "roles", "",
		"YAML file of callers, by certificate or token, and their roles (default: every caller may do anything)")
	fl.BoolVar(&a.AllowPlaintext, "allow-plaintext", false, "serve unencrypted on addresses other than loopback")
	fl.BoolVar(&a.allowAnonymous, "allow-anonymous", false, "")
}

// Check checks that the files are given together.
func (a *ServeAccess) Check() error {
	if err := a.Files.Check(); err != nil {
		return UsageError{err}
	}
	return nil
}

// Readable reads the files.
func (a *ServeAccess) Readable() error {
	_, err := access.Open(a.Files, access.Options{})
	return err
}

// permits returns an error if a requirement of listening on the flag's address is missing.
func (a *ServeAccess) permits(flag string, at net.Addr) error {
	if tcp, ok := at.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return nil
	}
	switch {
	case a.Files.Cert == "" && !a.AllowPlaintext:
		return UsageError{fmt.Errorf("%s: %v is not a loopback address, and connections would not be encrypted: "+
			"give --tls-cert and --tls-key ('autosched admin certs DIR' makes some), or --allow-plaintext", flag, at)}
	case a.Files.Roles == "" && !a.allowAnonymous:
		return UsageError{fmt.Errorf("%s: %v is not a loopback address, and every caller could change everything: "+
			"give --roles, or --allow-anonymous", flag, at)}
	}
	return nil
}

// PermitsAddress is permits before anything is written. The address is checked again once it is open.
func (a *ServeAccess) PermitsAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return UsageError{fmt.Errorf("%s: %w", flag, err)}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil // the error of listening names the fault
	}
	return a.permits(flag, at)
}

// Listen opens an address that the flag names, if the access to it is permitted.
func (a *ServeAccess) Listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := a.permits(flag, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ConnectFlags say how a client connects to the service.
type ConnectFlags struct {
	Server string
	CA     string
	Cert   string
	Key    string
	Token  string
	Stale  time.Duration
}

// Add adds the flags to a command and its subcommands.
func (f *ConnectFlags) Add(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.StringVar(&f.Server, "server", DefaultAddress, "address of the service, host:port; of its nodes, all of them with commas between")
	fl.StringVar(&f.CA, "tls-ca", "",
		"PEM file of the authority of the service's certificate, or system for those of the system; encrypts the connection")
	fl.StringVar(&f.Cert, "tls-cert", "", "")
	fl.StringVar(&f.Key, "tls-key", "", "")
	fl.StringVar(&f.Token, "token-file", "", "file of a token that says who calls")
	fl.DurationVar(&f.Stale, "max-staleness", 0,
		"how old the answer to a read may be that any node gives from its copy; 0: the leader answers")
}

// Endpoint is the service as package client takes it.
func (f *ConnectFlags) Endpoint() apiclient.Endpoint {
	return apiclient.Endpoint{Address: f.Server, CA: f.CA, Cert: f.Cert, Key: f.Key, TokenFile: f.Token,
		MaxStaleness: f.Stale}
}

// Check checks that the flags of a connection go together.
func (f *ConnectFlags) Check() error {
	if err := f.Endpoint().Check(); err != nil {
		return UsageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

// Dial makes a connection, which the first call opens.
func (f *ConnectFlags) Dial() (*grpc.ClientConn, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	conn, err := f.Endpoint().Dial()
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return conn, nil
}

// DefaultAddress is where the service listens and where clients look for it.
const DefaultAddress = "127.0.0.1:7443"
