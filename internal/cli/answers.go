package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

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
func (f *ClientFlags) AddChange(cmd *cobra.Command, get string) {
	f.AddReason(cmd)
	f.AddValidateOnly(cmd)
	if get != "" {
		f.AddEtag(cmd, get)
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

// NewTable begins a table, whose columns have two blanks between them, with a line of their names unless it is empty.
func NewTable(out io.Writer, columns string) *tabwriter.Writer {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if columns != "" {
		fmt.Fprintln(w, columns)
	}
	return w
}

// NewNumbers is NewTable with columns that end at the right.
func NewNumbers(out io.Writer, columns string) *tabwriter.Writer {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if columns != "" {
		fmt.Fprintln(w, columns)
	}
	return w
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
