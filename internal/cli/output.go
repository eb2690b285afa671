package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/schema"
)

// Show prints the result of a command: as JSON for programs, or by print for
// people.
// The schema is a name with a version, such as evaluation/v1 (package schema).
func Show(w io.Writer, asJSON bool, name string, result any, print func(io.Writer) error) error {
	if asJSON {
		return schema.Write(w, name, result)
	}
	return print(w)
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

// CheckPlot checks the path of --plot, which names its format.
func CheckPlot(path string, formats ...string) error {
	if path == "" || slices.Contains(formats, filepath.Ext(path)) {
		return nil
	}
	return UsageError{fmt.Errorf("--plot: %q does not end in %s", path, strings.Join(formats, " or "))}
}

// WritePlot writes the file of --plot: the page, or its figures alone.
func WritePlot(path string, page *chart.Page) error {
	return WriteFile(path, "--plot", func(out io.Writer) error {
		if filepath.Ext(path) == ".html" {
			return page.Write(out)
		}
		return page.Picture().Write(out, path)
	})
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
