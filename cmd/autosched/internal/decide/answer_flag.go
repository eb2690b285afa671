package decide

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// answerFlag is --print, and --conf-out of the site, of commands that recommend a configuration.
type answerFlag struct{ format string }

const nativeFormat = "native"

func (f *answerFlag) add(cmd *cobra.Command, h *cli.HistoryFlags) {
	h.Site.AddOut(cmd)
	cmd.Flags().StringVar(&f.format, "print", "text",
		"what to print: text, or native for the recommended configuration alone, as the scheduler's own file")
	_ = cmd.RegisterFlagCompletionFunc("print", cli.OneOf("text", nativeFormat))
}

func (f *answerFlag) check(asJSON bool) error {
	switch {
	case f.format != "text" && f.format != nativeFormat:
		return cli.Usage(fmt.Errorf("--print: %q is not one of text, native", f.format))
	case f.format == nativeFormat && asJSON:
		return cli.Usage(errors.New("--json and --print native exclude each other: the file is not JSON"))
	}
	return nil
}

// recommendation is the configuration to run, which is the one before where no change is better.
type recommendation struct {
	scheduler *schedulers.Scheduler
	config    space.Config
	change    bool
	reason    string
}

// show prints a result with show, or the configuration that it recommends.
func (f *answerFlag) show(cmd *cobra.Command, asJSON bool, schema string, result any,
	recommended func() (recommendation, error), print func(io.Writer) error) error {
	if f.format != nativeFormat {
		return cli.Show(cmd.OutOrStdout(), asJSON, schema, result, print)
	}
	r, err := recommended()
	if err != nil {
		return err
	}
	text, err := r.scheduler.Form().Render(native.ValuesOf(r.config))
	if err != nil {
		return fmt.Errorf("--print native: %w", err)
	}
	what := "this is a change"
	if !r.change {
		what = "no change is recommended; this is what runs"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "note: %s: %s\n", what, r.reason)
	_, err = cmd.OutOrStdout().Write(text)
	return err
}
