package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/schema"
)

// show prints the result of a command: as JSON for programs, or by print for
// people.
// The schema is a name with a version, such as evaluation/v1 (package schema).
func show(w io.Writer, asJSON bool, name string, result any, print func(io.Writer) error) error {
	if asJSON {
		return schema.Write(w, name, result)
	}
	return print(w)
}

// writeFile writes a file that a flag names.
func writeFile(path, flag string, write func(io.Writer) error) error {
	if err := atomicfile.Write(path, write); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// readFile reads a file, which may be compressed.
func readFile[T any](path string, read func(io.Reader) (*T, error)) (*T, error) {
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

// readInput reads a file, or standard input if the path is "-".
func readInput[T any](cmd *cobra.Command, path string, read func(io.Reader) (*T, error)) (*T, error) {
	if path != "-" {
		return readFile(path, read)
	}
	v, err := read(cmd.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return v, nil
}

// checkPlot checks the path of --plot, which names its format.
func checkPlot(path string, formats ...string) error {
	if path == "" || slices.Contains(formats, filepath.Ext(path)) {
		return nil
	}
	return usageError{fmt.Errorf("--plot: %q does not end in %s", path, strings.Join(formats, " or "))}
}

// writePlot writes what --plot names: the page, or its figures alone.
func writePlot(path string, page *chart.Page) error {
	return writeFile(path, "--plot", func(out io.Writer) error {
		if filepath.Ext(path) == ".html" {
			return page.Write(out)
		}
		return page.Picture().Write(out, path)
	})
}
