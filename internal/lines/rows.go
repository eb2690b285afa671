package lines

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rows calls each with the fields of the rows of a CSV, by the columns of its header, which must have the ones wanted.
// Blanks around fields do not count. row is valid until each returns. An error begins with the number of its line.
func Rows(r io.Reader, want []string, each func(row map[string]string) error) error {
	first, last := want[:len(want)-1], want[len(want)-1]
	columns := "want the columns " + strings.Join(first, ", ") + " and " + last
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("is empty: " + columns)
	}
	if err != nil {
		return err
	}
	for i, h := range header {
		header[i] = strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))
	}
	if slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(header, c) }) {
		return errors.New("1: " + columns)
	}
	in.ReuseRecord = true
	row := make(map[string]string, len(header))
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, c := range header {
			row[c] = strings.TrimSpace(fields[i])
		}
		if err := each(row); err != nil {
			line, _ := in.FieldPos(0)
			return fmt.Errorf("%d: %w", line, err)
		}
	}
}
