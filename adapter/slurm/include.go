package slurm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/autosched/autosched/space"
)

// Form is the included file: a key a line, in order of name, below comment lines. It implements native.Form.
type Form struct {
	// Tuned are the ids of the parameters that the file may set.
	Tuned []string
	// Site are the items of lists that are the site's own, by key: rendered behind those that are tuned.
	Site map[string][]string
}

// find returns the setting of a parameter that is tuned.
func (f *Form) find(id string) (setting, bool) {
	s, known := find(id)
	return s, known && slices.Contains(f.Tuned, s.id)
}

// line is a line of the file.
type line struct {
	number     int
	key, value string
}

// lines returns the lines that are not comments. Keys may occur once.
func lines(text []byte) ([]line, error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("the last line is cut off")
	}
	var out []line
	for i, l := range strings.Split(string(text), "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		switch {
		case !ok || key == "" || value == "":
			return nil, fmt.Errorf("line %d: %q is not Key=value", i+1, l)
		case strings.ContainsAny(l, " \t\r\\#\"'"):
			return nil, fmt.Errorf("line %d: %q has a blank, quote, comment or continuation", i+1, l)
		case slices.ContainsFunc(out, func(o line) bool { return strings.EqualFold(o.key, key) }):
			return nil, fmt.Errorf("line %d: %s is set twice", i+1, key)
		}
		out = append(out, line{i + 1, key, value})
	}
	return out, nil
}

// Render implements native.Form.
func (f *Form) Render(values space.Values) ([]byte, error) {
	keys := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(values)) {
		v := values[id]
		if of, sign := strings.CutSuffix(id, negativeSign); sign {
			if v := values[of]; v.IsZero() || v.Float() == 0 {
				return nil, fmt.Errorf("%s: there is no weight", id)
			}
			continue
		}
		s, known := f.find(id)
		if !known || s.id != id {
			return nil, fmt.Errorf("%s: the adapter does not set it", id)
		}
		if s.kind == bias && values[id+negativeSign].Bool() {
			v = space.Num(-v.Float())
		}
		text, err := s.text(v)
		if err != nil {
			return nil, err
		}
		key, option, listed := strings.Cut(id, ".")
		item := option + "=" + text
		switch {
		case !listed:
			keys[key] = text
			continue
		case s.kind == bias:
			item = "GRES/" + item
		case s.kind == flag && v.Bool():
			item = option
		case s.kind == flag:
			continue
		}
		keys[key] = strings.TrimPrefix(keys[key]+","+item, ",")
	}
	for key, items := range f.Site {
		if len(items) > 0 {
			keys[key] = strings.TrimPrefix(keys[key]+","+strings.Join(items, ","), ",")
		}
	}
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, "%s=%s\n", key, keys[key])
	}
	return b.Bytes(), nil
}

// Parse implements native.Form. It checks a file as well: every name is known, every value in its range.
func (f *Form) Parse(text []byte) (space.Values, error) {
	all, err := lines(text)
	if err != nil {
		return nil, err
	}
	values := space.Values{}
	missing := maps.Clone(f.Site)
	for _, l := range all {
		if l.key == schedulerParameters || l.key == weightTRES {
			err = f.parseList(l, values)
			delete(missing, l.key)
		} else if s, known := f.find(l.key); known {
			values[s.id], err = s.parse(l.value)
		} else {
			err = fmt.Errorf("%s: is not tuned here: set it in slurm.conf", l.key)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	for key, items := range missing {
		if len(items) > 0 {
			return nil, fmt.Errorf("%s: the site's %s is missing", key, strings.Join(items, ","))
		}
	}
	for _, id := range f.Tuned { // what is there by its absence
		if s, _ := find(id); s.kind == flag && values[id].IsZero() {
			values[id] = space.Bool(false)
		}
		if of, sign := strings.CutSuffix(id, negativeSign); sign && values[id].IsZero() && values[of].Float() > 0 {
			values[id] = space.Bool(false)
		}
	}
	return values, nil
}

// parseList reads the items of a list.
func (f *Form) parseList(l line, values space.Values) error {
	site := slices.Clone(f.Site[l.key])
	for item := range strings.SplitSeq(l.value, ",") {
		if i := slices.Index(site, item); i >= 0 {
			site = slices.Delete(site, i, i+1)
			continue
		}
		s, known := f.find(itemID(l.key, item))
		_, value, valued := strings.Cut(item, "=")
		switch {
		case !known:
			return fmt.Errorf("%s: %q is neither tuned nor the site's", l.key, item)
		case !values[s.id].IsZero():
			return fmt.Errorf("%s: %q sets it twice", l.key, item)
		case valued == (s.kind == flag):
			return fmt.Errorf("%s: %q: options have values and flags none", l.key, item)
		case s.kind == flag:
			values[s.id] = space.Bool(true)
			continue
		}
		v, err := s.parse(value)
		if err != nil {
			return err
		}
		if s.kind == bias && v.Float() < 0 {
			if !slices.Contains(f.Tuned, s.id+negativeSign) {
				return fmt.Errorf("%s: %q is negative", l.key, item)
			}
			v = space.Num(-v.Float())
			values[s.id+negativeSign] = space.Bool(true)
		}
		values[s.id] = v
	}
	if len(site) > 0 {
		return fmt.Errorf("%s: the site's %s is missing", l.key, strings.Join(site, ","))
	}
	return nil
}

// itemID is the id of the parameter of an item of a list.
func itemID(key, item string) string {
	name, _, _ := strings.Cut(item, "=")
	if key == weightTRES {
		name = strings.ToLower(strings.TrimPrefix(name, "GRES/"))
	}
	return key + "." + name
}

// siteItems are the items of lists in force that are not tuned.
func siteItems(config map[string]string, tuned []string) map[string][]string {
	out := map[string][]string{}
	for _, key := range []string{schedulerParameters, weightTRES} {
		for item := range strings.SplitSeq(config[key], ",") {
			if item != "" && !slices.Contains(tuned, itemID(key, item)) {
				out[key] = append(out[key], item)
			}
		}
	}
	return out
}

// fingerprint identifies the settings of a file, whatever its comments say.
func fingerprint(text []byte) string {
	var kept []string
	for l := range strings.Lines(string(text)) {
		if l[0] != '#' {
			kept = append(kept, l)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(kept, ""))))
}
