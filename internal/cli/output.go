package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/workload/trace"
)

// Show prints the result of a command: as JSON for programs, or by print for
// people.
// The schema is a name with a version, such as evaluation/v1 (package schema).
func Show(w io.Writer, asJSON bool, name string, result any, print func(io.Writer) error) error {
	if asJSON {
		return schema.Write(w, name, result)
	}
	return Print(w, print)
}

// Print prints for people, in lines that fit the output.
func Print(w io.Writer, print func(io.Writer) error) error { return fitted(w, w, print) }

// fitted calls print with a writer of lines that fit the output to which w leads.
func fitted(w, output io.Writer, print func(io.Writer) error) error {
	lines := table.NewLines(w, output)
	if err := print(lines); err != nil {
		return err
	}
	return lines.Flush()
}

// Report returns the run of a command that checks its flags, computes a result and shows it. Notes on it go to
// standard error.
func Report[R any](asJSON *bool, name string, check func() error, run func(context.Context, io.Writer) (R, error),
	print func(R, io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := check(); err != nil {
			return err
		}
		r, err := run(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return Show(cmd.OutOrStdout(), *asJSON, name, r, func(w io.Writer) error { return print(r, w) })
	}
}

// WriteFile writes a file that a flag names beside the output of the command.
func WriteFile(path, flag string, write func(io.Writer) error) error {
	if err := NeedsPath(path, flag, "a file"); err != nil {
		return err
	}
	if err := atomicfile.Write(path, write); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// ReadFile reads a file, which may be compressed.
func ReadFile[T any](path string, read func(io.Reader) (*T, error)) (*T, error) {
	in, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	v, err := read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// ReadInput reads a file, or standard input if the path is "-".
func ReadInput[T any](cmd *cobra.Command, path string, read func(io.Reader) (*T, error)) (*T, error) {
	if path != "-" {
		return ReadFile(path, read)
	}
	v, err := read(cmd.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return v, nil
}

// PlotFlag is --plot, the file of a command's figures.
type PlotFlag struct{ Path string }

// Add adds the flag.
func (f *PlotFlag) Add(cmd *cobra.Command) { cmd.Flags().StringVar(&f.Path, "plot", "", "") }

// Check checks that the file's name has a format, and that its folder is there, or is one of those that the command
// makes: a missing one would be found only after hours.
func (f *PlotFlag) Check(made ...string) error {
	if f.Path == "" {
		return nil
	}
	if !slices.Contains([]string{".svg", ".png", ".html"}, filepath.Ext(f.Path)) {
		return UsageError{fmt.Errorf("--plot: %q does not end in .svg, .png or .html", f.Path)}
	}
	dir := filepath.Dir(f.Path)
	if slices.ContainsFunc(made, func(m string) bool { return filepath.Clean(m) == dir }) {
		return nil
	}
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return UsageError{fmt.Errorf("--plot: %s is no folder: make it first", dir)}
	}
	return nil
}

// Write writes a page to the file, if one is named.
func (f *PlotFlag) Write(page func() (*chart.Page, error)) error {
	if f.Path == "" {
		return nil
	}
	p, err := page()
	if err != nil {
		return err
	}
	return WriteFile(f.Path, "--plot", func(out io.Writer) error { return f.WriteTo(out, p) })
}

// Show shows the result of a command as the function Show does, and draws its page if a file is named. For people the
// page's message, in bold on a terminal, stands above the text. A result that cannot be drawn is shown, too: it
// may have taken hours.
func (f *PlotFlag) Show(cmd *cobra.Command, asJSON bool, name string, result any, page func() (*chart.Page, error),
	print func(io.Writer) error) error {
	p, err := page()
	if err == nil {
		err = f.Write(func() (*chart.Page, error) { return p, nil })
	}
	if f.Path == "" { // nothing is drawn
		err = nil
	}
	shown := Show(cmd.OutOrStdout(), asJSON, name, result, func(w io.Writer) error {
		if p != nil { // otherwise there is nothing to draw
			table.Strong(w, strings.Join(append([]string{p.Lead}, p.Details...), " "))
			fmt.Fprintln(w)
		}
		return print(w)
	})
	return cmp.Or(shown, err)
}

// NewPage begins the page of a command, whose text is what it prints. The message is in sentences, of which the first
// leads.
func NewPage(name string, synthetic bool, message string, print func(io.Writer) error) (*chart.Page, error) {
	var text strings.Builder
	if err := print(table.Kept(&text)); err != nil {
		return nil, err
	}
	p := &chart.Page{Name: "AutoSched " + name, Synthetic: synthetic, Class: "open", Text: text.String()}
	p.Say(message)
	return p, nil
}

// WriteTo writes a page, or its figures alone, as the name of the file says.
func (f *PlotFlag) WriteTo(out io.Writer, p *chart.Page) error {
	if filepath.Ext(f.Path) == ".html" {
		return p.Write(out)
	}
	picture := p.Picture()
	if len(picture.Rows) == 0 {
		return errors.New("there is nothing to draw; a .html page has the text")
	}
	return picture.Write(out, f.Path)
}

// WriteOutput writes to a file that replaces an existing one once it is complete, or to
// standard output for "-".
func WriteOutput(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	till := func(out io.Writer) error { return write(untilDone{cmd.Context(), out}) }
	if path == "-" {
		return till(cmd.OutOrStdout())
	}
	return atomicfile.Write(path, till)
}

// NeedsPath refuses "-" for an output that standard output cannot hold.
func NeedsPath(path, flag, output string) error {
	if path == "-" {
		return UsageError{fmt.Errorf("%s: - is no name of %s, and standard output has the report: name one", flag,
			output)}
	}
	return nil
}

// ThroughFile calls write with a path. For "-" it is that of a temporary file, which goes to standard output.
func ThroughFile(cmd *cobra.Command, path string, write func(path string) error) error {
	if path != "-" {
		return write(path)
	}
	dir, err := os.MkdirTemp("", "autosched-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path = filepath.Join(dir, "output")
	if err := write(path); err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(cmd.OutOrStdout(), in)
	return err
}

// ReportWriter returns the writer of the report on a file that a command writes: standard error if standard output
// holds the file.
func ReportWriter(cmd *cobra.Command, path string) io.Writer {
	if path == "-" {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// untilDone is a writer that ends with its context.
type untilDone struct {
	ctx context.Context
	io.Writer
}

func (u untilDone) Write(b []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.Writer.Write(b)
}

// ShortName returns the last segment of a resource name.
func ShortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// EnumWord is an enum's value as flags take it: auto for AUTO. States print as the API has them.
func EnumWord(e fmt.Stringer) string { return strings.ToLower(e.String()) }

// WaitsText names the condition that a proposal waits for.
func WaitsText(scheduler string) string {
	return fmt.Sprintf("for 'autosched scheduler config approve %s', or 'reject' or 'park'",
		scheduler)
}

// ThreeDigits has three digits behind the point where they matter.
func ThreeDigits(v float64) string {
	switch a := max(v, -v); {
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// BandText is a value with its unit, as in "$ %s" or "%s kg", and the ends of its uncertainty.
func BandText(format string, b energy.Band) string {
	return strings.Replace(format, "%s", ThreeDigits(b.Middle), 1) +
		fmt.Sprintf(" (%s to %s)", ThreeDigits(b.Low), ThreeDigits(b.High))
}

// SyntheticLabel marks results of synthetic traces.
func SyntheticLabel(synthetic bool) string {
	if synthetic {
		return " (synthetic)"
	}
	return ""
}

// ShortStudy is SCHEDULER/STUDY of a name.
func ShortStudy(name string) string {
	return strings.Replace(strings.TrimPrefix(name, "schedulers/"), "/studies/", "/", 1)
}

// ShortTrial is SCHEDULER/STUDY/TRIAL of a name.
func ShortTrial(name string) string { return strings.Replace(ShortStudy(name), "/trials/", "/", 1) }

// SavedShare formats a controllable ratio as the share that is saved, "" if there is none.
func SavedShare(ratio float64) string {
	if ratio <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*(1-1/ratio))
}

// ShortWorkload is SCHEDULER/WORKLOAD of a name.
func ShortWorkload(name string) string {
	return strings.Replace(strings.TrimPrefix(name, "schedulers/"), "/workloads/", "/", 1)
}

// ProgressLine rewrites one line of a terminal. Elsewhere it adds a line every ten
// seconds, so that a log shows progress.
type ProgressLine struct {
	Out        io.Writer
	OnTerminal bool // a terminal
	LastDrawn  time.Time
	wide       int
}

const (
	redraw  = 100 * time.Millisecond
	logLine = 10 * time.Second
)

// NewProgressLine returns a line on w, redrawn in place if w is a terminal.
func NewProgressLine(w io.Writer) *ProgressLine {
	return &ProgressLine{Out: table.Whole(w), OnTerminal: table.Terminal(w) > 0, LastDrawn: time.Now()}
}

// Show replaces the line, unless it was just drawn.
func (p *ProgressLine) Show(format string, args ...any) {
	every := redraw
	if !p.OnTerminal {
		every = logLine
	}
	if time.Since(p.LastDrawn) < every {
		return
	}
	p.LastDrawn = time.Now()
	line := fmt.Sprintf(format, args...)
	if !p.OnTerminal {
		fmt.Fprintln(p.Out, line)
		return
	}
	line = chart.Clip(line, table.Width(p.Out)-1) // one that is wider is not replaced by the next
	fmt.Fprintf(p.Out, "\r%-*s", p.wide, line)
	p.wide = max(p.wide, utf8.RuneCountInString(line))
}

// Reading shows how much of a trace is read, of which the rows stay in memory.
func (p *ProgressLine) Reading(path string) func(trace.Progress) {
	return func(x trace.Progress) {
		limitHeap(x.Rows)
		if x.Total > 0 {
			p.Show("reading %s: %d %%, %d rows", path, 100*x.Bytes/x.Total, x.Rows)
		} else {
			p.Show("reading %s: %d rows", path, x.Rows)
		}
	}
}

// Clear removes the line.
func (p *ProgressLine) Clear() {
	if p.OnTerminal && p.wide > 0 {
		fmt.Fprintf(p.Out, "\r%*s\r", p.wide, "")
	}
}

// DashedLine is the line of a limit or a reference.
var DashedLine = []float64{5, 4}

// HorizontalLine is a horizontal line through a chart.
func HorizontalLine(y float64) []chart.Point {
	return []chart.Point{{X: math.Inf(-1), Y: y}, {X: math.Inf(1), Y: y}}
}

// MaxPoints bounds the points of a line: more cannot be distinguished.
const MaxPoints = 1200
