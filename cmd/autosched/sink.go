package main

import (
	"fmt"
	"io"

	"github.com/autosched/autosched/internal/atomicfile"
)

// writeFile writes a file that a flag names.
func writeFile(path, flag string, write func(io.Writer) error) error {
	if err := atomicfile.Write(path, write); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
