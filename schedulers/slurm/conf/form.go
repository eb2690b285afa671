package conf

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
)

// Form is the file that slurm.conf includes last: a key a line, in order of name, below comment lines. The priority of
// a QOS is a comment to Slurm, #QOS.name.Priority=5, and set by sacctmgr. It implements native.Form.
type Form struct {
	// Tuned are the ids of the parameters that the file may set; all of [Tunable] if nil.
	Tuned []string
	// Site are the items of lists that are the site's own, by key: rendered behind the tuned ones.
	Site map[string][]string
}

// tunes returns the setting of a parameter that the file may set.
func (f *Form) tunes(id string) (Setting, bool) {
	s, known := Find(id)
	return s, known && (f.Tuned == nil || tunes(f.Tuned, s.ID))
}

// maxLine bounds a line, comment or not, in bytes: _get_next_line in src/common/parse_config.c takes what is beyond its
// buffer as another line.
const maxLine = 1024

// FormLines returns the lines of an included file that are not comments, and lines of QOS without their #. Keys may
// occur once; blanks, quotes and continued lines are refused.
func FormLines(text []byte) ([]Line, error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("the last line is cut off: end it with a newline")
	}
	var out []Line
	for i, l := range strings.Split(string(text), "\n") {
		if len(l) > maxLine || strings.IndexByte(l, 0) >= 0 {
			return nil, fmt.Errorf("line %d: Slurm does not read it as one line", i+1)
		}
		l, is := marked(l)
		if l == "" || l[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		switch {
		case !ok || key == "" || value == "":
			return nil, fmt.Errorf("line %d: %q is not Key=value", i+1, l)
		case strings.ContainsAny(l, " \t\r\f\v\\#\"'"):
			return nil, fmt.Errorf("line %d: %q has a blank, quote, comment or continuation", i+1, l)
		case slices.ContainsFunc(out, func(o Line) bool { return strings.EqualFold(o.Key, key) }):
			return nil, fmt.Errorf("line %d: %s is set twice", i+1, key)
		}
		if isQOS(key) != is {
			return nil, fmt.Errorf("line %d: %s: write it behind a #, as it is no setting of slurm.conf", i+1, key)
		}
		out = append(out, Line{Number: i + 1, Key: key, Value: value})
	}
	return out, nil
}

// Render implements native.Form.
func (f *Form) Render(values space.Values) ([]byte, error) {
	keys := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(values)) {
		v := values[id]
		s, known := f.tunes(id)
		switch {
		case !known:
			return nil, fmt.Errorf("%s: is not a setting of slurm.conf that is tuned here", id)
		case s.ID+Negative == id:
			if v := values[s.ID]; v.IsZero() || v.Float() == 0 {
				return nil, fmt.Errorf("%s: there is no weight", id)
			}
			continue
		}
		text, err := s.text(v)
		if err != nil {
			return nil, err
		}
		key, name, listed := s.split()
		item := name + "=" + text
		switch {
		case isQOS(key):
			keys["#"+key] = text
			continue
		case !listed:
			keys[key] = text
			continue
		case s.Kind == Weight:
			if values[s.ID+Negative].Bool() {
				text = "-" + text
			}
			item = "GRES/" + name + "=" + text
		case s.Kind == Flag && v.Bool():
			item = name
		case s.Kind == Flag:
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

// Parse implements native.Form. It reads nothing but Render's output: every name is known, every value in its
// range, the site's items are there.
func (f *Form) Parse(text []byte) (space.Values, error) {
	lines, err := FormLines(text)
	if err != nil {
		return nil, err
	}
	values := space.Values{}
	missing := maps.Clone(f.Site)
	for _, l := range lines {
		if l.Key == SchedulerParameters || l.Key == WeightTRES {
			err = f.parseList(l, values)
			delete(missing, l.Key)
		} else if s, known := f.tunes(l.Key); known {
			values[s.ID], err = s.parse(l.Value)
		} else {
			err = fmt.Errorf("%s: is not tuned here: set it in slurm.conf", l.Key)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.Number, err)
		}
	}
	for key, items := range missing {
		if len(items) > 0 {
			return nil, fmt.Errorf("%s: the site's %s is missing", key, strings.Join(items, ","))
		}
	}
	tuned := f.Tuned
	if tuned == nil {
		tuned = Tunable()
	}
	for _, id := range tuned { // an option may be set by its absence
		s, _ := Find(id)
		switch {
		case !values[id].IsZero():
		case s.Kind == Flag && f.Tuned != nil:
			values[id] = space.Bool(false)
		case s.Kind == Weight && id != s.ID && values[s.ID].Float() > 0:
			values[id] = space.Bool(false)
		}
	}
	return values, nil
}

// parseList reads the items of a list.
func (f *Form) parseList(l Line, values space.Values) error {
	site := slices.Clone(f.Site[l.Key])
	for item := range strings.SplitSeq(l.Value, ",") {
		if i := slices.Index(site, item); i >= 0 {
			site = slices.Delete(site, i, i+1)
			continue
		}
		s, known := f.tunes(itemID(l.Key, item))
		_, value, valued := strings.Cut(item, "=")
		switch {
		case !known || l.Key == WeightTRES && !strings.HasPrefix(item, "GRES/"):
			return fmt.Errorf("%s: %q is neither tuned nor the site's", l.Key, item)
		case !values[s.ID].IsZero():
			return fmt.Errorf("%s: %q sets it twice", l.Key, item)
		case valued == (s.Kind == Flag):
			return fmt.Errorf("%s: %q: options have values and flags none", l.Key, item)
		case s.Kind == Flag:
			values[s.ID] = space.Bool(true)
			continue
		}
		v, err := s.parse(value)
		if err != nil {
			return err
		}
		if s.Kind == Weight && v.Float() < 0 {
			if f.Tuned != nil && !slices.Contains(f.Tuned, s.ID+Negative) {
				return fmt.Errorf("%s: %q is negative", l.Key, item)
			}
			v = space.Num(-v.Float())
			values[s.ID+Negative] = space.Bool(true)
		}
		values[s.ID] = v
	}
	if len(site) > 0 {
		return fmt.Errorf("%s: the site's %s is missing", l.Key, strings.Join(site, ","))
	}
	return nil
}

// QOSPriorities are the priorities that a file of any hand says, by QOS.
func QOSPriorities(text []byte) (map[string]int64, error) {
	out := map[string]int64{}
	for l := range bytes.Lines(text) {
		l, is := marked(strings.TrimSpace(string(l)))
		if !is {
			continue
		}
		key, value, _ := strings.Cut(l, "=")
		s, _ := Find(key)
		v, err := s.parse(value)
		if err != nil {
			return nil, err
		}
		name, _ := slurm.QOSOf(key)
		out[name] = int64(v.Float())
	}
	return out, nil
}

// Fingerprint identifies the settings of an included file, whatever its comments say.
func Fingerprint(text []byte) string {
	h := sha256.New()
	for l := range bytes.Lines(text) {
		if _, is := marked(string(l)); is || l[0] != '#' {
			h.Write(l)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// Head is the comment line above a rendered file: the revision, the time, and the beginning of the fingerprint.
func Head(revision int64, at time.Time, body []byte) string {
	return fmt.Sprintf("# AutoSched: revision %d, %s, settings %.12s\n", revision, at.UTC().Format(time.RFC3339),
		Fingerprint(body))
}
