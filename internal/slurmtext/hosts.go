package slurmtext

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxHosts bounds the names of a host list: the largest clusters have 10,000 nodes.
const maxHosts = 20_000

// HostList returns the names of a host list in its order: names with commas between them, each perhaps with ranges of
// numbers in brackets, such as gpu[001-003,7],login1 or r[1-2]n[01,03]. Numbers keep their leading zeros. An empty text
// and "None assigned", which sacct prints while a job waits (as_mysql_job.c), have no names.
//
// hostlist_ranged_string_dims in src/common/hostlist.c writes the lists, and _parse_single_range there refuses a stride
// such as a[1-9:2], which only lists of array tasks have. A list that lacks its closing bracket was cut off and does
// not name all nodes: it is an error, as in hostlist_create.
func HostList(text string) ([]string, error) {
	var out []string
	if text == "None assigned" {
		return nil, nil
	}
	if strings.ContainsAny(text, " \t\r\n") {
		return nil, fmt.Errorf("host list %.40q: has a blank", text)
	}
	for len(text) > 0 {
		name, rest, err := cutHost(text)
		if err != nil {
			return nil, fmt.Errorf("host list %.40q: %w", text, err)
		}
		if out, err = expandHost(out, "", name); err != nil {
			return nil, fmt.Errorf("host list %.40q: %w", text, err)
		}
		text = rest
	}
	return out, nil
}

// cutHost cuts a list at its first comma outside brackets.
func cutHost(text string) (name, rest string, err error) {
	open := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '[' && !open, c == ']' && open:
			open = !open
		case c == '[' || c == ']':
			return "", "", fmt.Errorf("brackets do not match")
		case c == ',' && !open:
			name, rest = text[:i], text[i+1:]
			if name == "" || rest == "" {
				return "", "", fmt.Errorf("a name is missing beside a comma")
			}
			return name, rest, nil
		}
	}
	if open {
		return "", "", fmt.Errorf("brackets do not match")
	}
	return text, "", nil
}

// expandHost appends the names of one item, whose first brackets have prefix before them.
func expandHost(out []string, prefix, item string) ([]string, error) {
	before, rest, found := strings.Cut(item, "[")
	if !found {
		if len(out) == maxHosts {
			return nil, fmt.Errorf("is of more than %d nodes", maxHosts)
		}
		return append(out, prefix+item), nil
	}
	ranges, after, _ := strings.Cut(rest, "]")
	for r := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || to < from {
			return nil, fmt.Errorf("%q is not a number or a range of numbers", r)
		}
		for n := from; n <= to; n++ {
			var err error
			if out, err = expandHost(out, fmt.Sprintf("%s%s%0*d", prefix, before, len(first), n), after); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// ShortHost is a host's name before the first dot; an address stays as it is.
func ShortHost(name string) string {
	if net.ParseIP(name) != nil {
		return name
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

// Hosts finds hosts by names in any case, short or full.
type Hosts[T any] struct {
	full map[string]T
	// fold and short are names of full by lower case, whole and before the first dot; "" where several have it.
	fold, short map[string]string
}

// NewHosts returns the hosts of a map by name, which must not change.
func NewHosts[T any](full map[string]T) *Hosts[T] {
	h := &Hosts[T]{full, map[string]string{}, map[string]string{}}
	for name := range full {
		fold := strings.ToLower(name)
		once(h.fold, fold, name)
		once(h.short, ShortHost(fold), name)
	}
	return h
}

func once(names map[string]string, key, name string) {
	if _, twice := names[key]; twice {
		name = ""
	}
	names[key] = name
}

// Find returns the host of a name: the one of an equal name, or else, of a short and a full name, the only one whose
// part before the first dot is equal.
func (h *Hosts[T]) Find(name string) (x T, ok bool) {
	if x, ok = h.full[name]; ok {
		return x, true
	}
	fold := strings.ToLower(name)
	at := h.fold[fold]
	if short := ShortHost(fold); at == "" {
		if at = h.short[short]; (short == fold) == (ShortHost(at) == at) {
			return x, false
		}
	}
	x, ok = h.full[at]
	return x, ok && at != ""
}
