package slurmtext

import (
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Record is a row or a line of settings: values by the name of the column or key, in lower case.
type Record map[string]string

// Records reads the output of scontrol show: records that begin with a key in the first column, the fields of which
// have blanks between them. A value may have blanks, too; the first of two fields with one key counts. After a key
// whose value administrators write, only keys that slurm_sprint_node_table in src/api/node_info.c has there count.
// (null) is empty.
func Records(text, first string) []Record {
	var out []Record
	last, written := "", false
	for l := range strings.Lines(text) {
		for i, field := range strings.Fields(l) {
			key, value, ok := strings.Cut(field, "=")
			key = strings.ToLower(key)
			if ok && i == 0 && key == first {
				out, written = append(out, Record{}), false
			}
			if len(out) == 0 {
				continue
			}
			r := out[len(out)-1]
			if ok {
				_, twice := r[key]
				free := slices.Contains(freeKeys, key)
				if twice || written && !free && !slices.Contains(afterFree, key) {
					last = "" // text of a comment or a reason
					continue
				}
				if last, written = key, written || free; value == null {
					value = ""
				}
				r[key] = value
			} else if last != "" {
				r[last] += " " + field
			}
		}
	}
	return out
}

// freeKeys are keys of nodes with text of administrators, and afterFree others that may follow them.
var (
	freeKeys  = []string{"reason", "comment", "extra"}
	afterFree = []string{"instanceid", "instancetype", "reservationname", "topology", "certflags"}
)

// Table reads a table with a header and bars between its columns, as option -P of sacctmgr prints it. Names of columns
// are in lower case, without blanks. A row with another number of columns and a header that lacks a required column are
// errors that begin with the number of the line.
func Table(text string, required ...string) ([]Record, error) {
	var header []string
	var out []Record
	number := 0
	for l := range strings.Lines(text) {
		number++
		fields := strings.Split(strings.TrimRight(l, "\r\n"), "|")
		if header == nil {
			header = fields
			for i, name := range header {
				header[i] = strings.ToLower(strings.ReplaceAll(name, " ", ""))
			}
			for _, name := range required {
				if !slices.Contains(header, name) {
					return nil, fmt.Errorf("1: there is no column %s: print it with sacctmgr -P", name)
				}
			}
			continue
		}
		if len(fields) != len(header) {
			return nil, fmt.Errorf("%d: has %d columns, and the first line %d", number, len(fields), len(header))
		}
		out = append(out, record(header, fields))
	}
	return out, nil
}

func record(header, fields []string) Record {
	r := make(Record, len(header))
	for i, name := range header {
		r[name] = fields[i]
	}
	return r
}

// A Listing is a call of sacct whose rows no text of a user can forge: the delimiter is drawn for the call, and the
// name of a job, the one column that users write, comes last.
type Listing struct {
	delimiter string
	columns   []string // in lower case, with the name last
	format    string
}

// jobName is the column that users write: any bytes but 0, newlines and bars among them.
const jobName = "JobName"

// NewListing makes a call that prints columns of sacct and the names of the jobs. The delimiter is of bytes of random.
func NewListing(random io.Reader, columns ...string) (Listing, error) {
	var drawn [16]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return Listing{}, err
	}
	l := Listing{delimiter: "|" + hex.EncodeToString(drawn[:]) + "|"}
	columns = append(columns[:len(columns):len(columns)], jobName)
	l.format = strings.Join(columns, ",")
	for _, c := range columns {
		l.columns = append(l.columns, strings.ToLower(c))
	}
	return l, nil
}

// Args are the arguments of sacct that print the listing, without a header.
func (l Listing) Args() []string {
	return []string{"-P", "-n", "--delimiter=" + l.delimiter, "--format=" + l.format}
}

// Rows reads the output. print_fields_str in src/common/print_fields.c writes values as they are, so that a name goes
// on over several lines: those without a delimiter. A line with any other number of fields than there are columns is
// left out with the lines that continue it, and counted in faults.
func (l Listing) Rows(text string) (rows []Record, faults int) {
	whole := false // the row before is
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), l.delimiter)
		switch {
		case len(fields) == len(l.columns):
			rows, whole = append(rows, record(l.columns, fields)), true
		case len(fields) > 1:
			whole = false
			faults++
		case whole:
			rows[len(rows)-1]["jobname"] += "\n" + fields[0]
		case len(rows)+faults == 0:
			faults++
		}
	}
	return rows, faults
}
