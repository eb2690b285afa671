package trace

import (
	"bytes"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/lines"
)

// Format is a way to write a trace down. To add one, write a file that holds
// its reader and add its entry to Formats.
type Format struct {
	Name   string // as in Options.Format
	About  string // one sentence
	Header string // its beginning, to show
	// detect recognises the format by the beginning of the text. At most one format
	// may recognise a text.
	detect func(head []byte) bool
	// read gives every row of a file to input.add, input.reject or input.state.
	read func(*input) error
	// finish makes jobs of input.state after the last file. It may be nil.
	finish func(*input) error
	// hint is the advice where a header is nearly the format's, "" where it is not.
	// It may be nil.
	hint func(header []byte) string
	// withTenant is the format with another column as the tenant; it may be nil.
	withTenant func(column string) Format
}

// Formats are the known formats, in order of name.
var Formats = []Format{
	acmeFormat,
	autoschedFormat,
	eventsFormat,
	heliosFormat,
	kueueFormat,
	pai2020Format,
	pai2023Format,
	phillyFormat,
	phillyJSONFormat,
	sacctFormat,
	secondsFormat,
	slurmJSONFormat,
	swfFormat,
	volcanoFormat,
}

func formatNamed(name string) *Format {
	for i := range Formats {
		if Formats[i].Name == name {
			return &Formats[i]
		}
	}
	return nil
}

func formatNames() string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// formatOf is the format of traces that are one table.
func formatOf(name, about string, t *table) Format {
	return Format{Name: name, About: about, Header: t.title(), detect: t.matches, read: t.read}
}

// title is the header as it may be written.
func (t *table) title() string {
	sep := ","
	if t.sep != 0 {
		sep = string(t.sep)
	}
	var names []string
	for _, name := range t.names() {
		if !t.exact {
			name, _, _ = strings.Cut(name, "/")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, sep)
}

// matches reports whether a text begins with the table's header, or with a row of
// a table that has none.
func (t *table) matches(head []byte) bool {
	fields, reason := t.split(bytes.Clone(lines.Header(head)), nil)
	if reason != "" {
		return false
	}
	return t.hasHeader(fields) || t.bare != nil && t.bare(fields)
}

func (t *table) hasHeader(fields [][]byte) bool {
	return !slices.ContainsFunc(t.required, func(name string) bool { return t.columnOf(fields, name) == noColumn })
}
