// Package conf reads and writes the configuration of Slurm: slurm.conf with its included files, the settings that
// scontrol show config prints, and the file that AutoSched owns. Parameters have the names of the settings. The
// syntax is that of slurm.conf(5) and of parse_config.c of Slurm 22.05.
package conf

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
)

// Config is a configuration of Slurm, each setting as it is written.
type Config struct {
	// Lines are the settings in the order in which Slurm reads them.
	Lines []Line
	// Nodes and Partitions are the lines of slurm.conf that begin with NodeName and PartitionName.
	Nodes, Partitions []Record
	// Files are slurm.conf and the files it includes, in the order in which Slurm reads them.
	Files []string
	// includes are the include lines, with the paths as they are written.
	includes []Line
}

// Line is a setting and where it is set.
type Line struct {
	File       string
	Number     int
	Key, Value string
}

func (l Line) String() string { return fmt.Sprintf("%s:%d: %s", l.File, l.Number, l.Key) }

// Record is a line of several settings, such as that of nodes, by key in lower case.
type Record map[string]string

// bounds of a configuration
const (
	maxFile     = 16 << 20
	maxIncludes = 100
)

// records are the keys that begin a line of several settings.
var records = []string{"nodename", "partitionname", "frontendname", "downnodes", "nodeset", "switchname"}

// Read reads slurm.conf, and through open its included files; paths are joined to the folder of slurm.conf. Errors
// name the file and the line.
func Read(path string, open func(path string) ([]byte, error)) (*Config, error) {
	c := &Config{}
	if err := c.read(path, filepath.Dir(path), open, nil); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) read(path, dir string, open func(string) ([]byte, error), above []string) error {
	switch {
	case slices.Contains(above, path):
		return fmt.Errorf("%s: includes itself: take the include line out", path)
	case len(c.Files) == maxIncludes:
		return fmt.Errorf("%s: more than %d files are included", path, maxIncludes)
	}
	text, err := open(path)
	if err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s: is larger than %d MiB", path, maxFile>>20)
	}
	c.Files = append(c.Files, path)
	for _, l := range logical(string(text)) {
		if of, is := Included(l.text); is {
			c.includes = append(c.includes, Line{path, l.number, "include", of})
			if err := c.read(c.resolve(of, dir), dir, open, append(above, path)); err != nil {
				return fmt.Errorf("%s:%d: %w", path, l.number, err)
			}
			continue
		}
		if key, value, _ := strings.Cut(l.text, "="); isQOS(key) {
			c.Lines = append(c.Lines, Line{path, l.number, key, value})
			continue
		}
		pairs, err := pairsOf(l.text)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, l.number, err)
		}
		if len(pairs) == 0 {
			continue
		}
		if first := strings.ToLower(pairs[0].Key); slices.Contains(records, first) {
			r := Record{}
			for _, p := range pairs {
				r[strings.ToLower(p.Key)] = p.Value
			}
			switch first {
			case "nodename":
				c.Nodes = append(c.Nodes, r)
			case "partitionname":
				c.Partitions = append(c.Partitions, r)
			}
			continue
		}
		for _, p := range pairs {
			c.Lines = append(c.Lines, Line{path, l.number, p.Key, p.Value})
		}
	}
	return nil
}

// resolve is the path of a file that an include line names, in the folder of slurm.conf.
func (c *Config) resolve(of, dir string) string {
	if of = strings.ReplaceAll(of, "%c", c.Get("ClusterName")); !filepath.IsAbs(of) {
		of = filepath.Join(dir, of)
	}
	return of
}

// Real is a path with its symbolic links resolved, as far as it exists.
func Real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return filepath.Clean(path)
}

// Configless reports whether nodes get their configuration from slurmctld.
func (c *Config) Configless() bool {
	return slices.Contains(strings.Split(strings.ToLower(c.Get("SlurmctldParameters")), ","), "enable_configless")
}

// IncludeLine is the line of slurm.conf that includes a file: its name alone where the file lies in slurm.conf's
// folder, or below it, where a link in that folder has to lead to it, as configless nodes get no other files. link is
// the command that makes the link; empty if none is needed.
func IncludeLine(main, include string) (line, link string) {
	dir, name := filepath.Dir(main), filepath.Base(include)
	at, err := filepath.Rel(dir, include)
	switch {
	case err != nil || strings.HasPrefix(at, ".."):
		return "include " + include, ""
	case at == name:
		return "include " + name, ""
	}
	return "include " + name, "ln -s " + at + " " + filepath.Join(dir, name)
}

// HasLine reports whether an include line is there as it is written.
func (c *Config) HasLine(line string) bool {
	return slices.ContainsFunc(c.includes, func(l Line) bool { return line == l.Key+" "+l.Value })
}

// Includes is an error that names the line to add or change if slurm.conf does not include a file so that every node
// gets it: fetch_config.c ships a file that slurm.conf itself includes, by a name without a slash.
func (c *Config) Includes(include string) error {
	main := c.Files[0]
	line, link := IncludeLine(main, Real(include))
	want := strconv.Quote(line)
	if link != "" {
		want += " after " + strconv.Quote(link)
	}
	for _, l := range c.includes {
		switch {
		case Real(c.resolve(l.Value, filepath.Dir(main))) != Real(include):
			continue
		case c.Configless() && (l.File != main || strings.Contains(l.Value, "/")):
			return fmt.Errorf("%s:%d: include %s: configless nodes do not get a file with a path, and their slurmd ends after "+
				"the next reconfiguration: write %s", l.File, l.Number, l.Value, want)
		}
		return nil
	}
	return fmt.Errorf("%s does not include %s: end it with the line %s", main, include, want)
}

// logicalLine is a line with its continuations, without comments. It has the number of its first.
type logicalLine struct {
	number int
	text   string
}

func logical(text string) []logicalLine {
	var out []logicalLine
	number, continued := 0, false
	for l := range strings.Lines(text) {
		number++
		l, _ = marked(l)
		l = strings.TrimRight(uncommented(l), " \t\r\n\f\v")
		more := strings.HasSuffix(l, `\`)
		l = strings.TrimSuffix(l, `\`)
		if continued {
			out[len(out)-1].text += l
		} else {
			out = append(out, logicalLine{number, l})
		}
		continued = more
	}
	return out
}

// marked returns the setting of a QOS, which lies behind the sign of a comment: slurm.conf has none of it, and the
// adapter sets it by sacctmgr.
func marked(l string) (setting string, is bool) {
	if setting, is = strings.CutPrefix(l, "#"); is {
		if key, _, _ := strings.Cut(setting, "="); isQOS(key) {
			return setting, true
		}
	}
	return l, false
}

// isQOS reports whether a key is the priority of a QOS.
func isQOS(key string) bool {
	_, is := slurm.QOSOf(key)
	return is
}

// uncommented cuts a line at the first # that no backslash is before.
func uncommented(l string) string {
	for i := range len(l) {
		if l[i] == '#' && (i == 0 || l[i-1] != '\\') {
			return strings.ReplaceAll(l[:i], `\#`, "#")
		}
	}
	return strings.ReplaceAll(l, `\#`, "#")
}

// Included returns the file that a line includes.
func Included(l string) (path string, is bool) {
	fields := strings.Fields(l)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "include") {
		return "", false
	}
	return fields[1], true
}

// pair is Key=Value.
type pair struct{ Key, Value string }

// pairsOf reads the settings of a line: Key=Value with blanks between, values with blanks in quotes.
func pairsOf(l string) ([]pair, error) {
	var out []pair
	for {
		l = strings.TrimLeft(l, " \t\f\v\r")
		if l == "" {
			return out, nil
		}
		key, rest, ok := strings.Cut(l, "=")
		key = strings.TrimRight(key, " \t+-*/") // Slurm reads an operator before the equals sign, too
		if !ok || key == "" || strings.IndexFunc(key, func(r rune) bool { return !nameRune(r) }) >= 0 {
			return nil, fmt.Errorf("%.60q is not Key=Value", l)
		}
		rest = strings.TrimLeft(rest, " \t")
		var value string
		if strings.HasPrefix(rest, `"`) {
			if value, rest, ok = strings.Cut(rest[1:], `"`); !ok {
				return nil, fmt.Errorf("%s: the quotes are not closed", key)
			}
			if rest != "" && strings.IndexByte(" \t\f\v\r\n", rest[0]) < 0 {
				return nil, fmt.Errorf("%s: %.40q follows the quotes: put a blank between", key, rest)
			}
		} else {
			end := strings.IndexAny(rest, " \t\f\v\r")
			if end < 0 {
				end = len(rest)
			}
			if value, rest = rest[:end], rest[end:]; value == "" {
				return nil, fmt.Errorf("%s: has no value: give it one, or take the line out", key)
			}
		}
		out = append(out, pair{key, value})
		l = rest
	}
}

func nameRune(r rune) bool {
	return r == '_' || r == '.' || r == '[' || r == ']' ||
		r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// null is Slurm's text for nothing.
const null = "(null)"

// ReadShown reads the output of scontrol show config.
func ReadShown(file string, text []byte) (*Config, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: is larger than %d MiB", file, maxFile>>20)
	}
	c := &Config{Files: []string{file}}
	number := 0
	for l := range bytes.Lines(text) {
		number++
		key, value, ok := strings.Cut(string(l), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || strings.ContainsAny(key, " \t") {
			continue // headings, and the states of daemons
		}
		if value == null {
			value = ""
		}
		c.Lines = append(c.Lines, Line{file, number, key, value})
	}
	if c.Get("ClusterName") == "" {
		return nil, fmt.Errorf("%s: has no line \"ClusterName = ...\": write the output of scontrol show config into it", file)
	}
	return c, nil
}

// Find returns the line that counts for a key, in any case: the last.
func (c *Config) Find(key string) (Line, bool) {
	for _, l := range slices.Backward(c.Lines) {
		if strings.EqualFold(l.Key, key) {
			return l, true
		}
	}
	return Line{}, false
}

// Get returns the value of a key, empty if it has none.
func (c *Config) Get(key string) string {
	l, _ := c.Find(key)
	return l.Value
}

// QOS are the ids of the priorities of QOS that are set.
func (c *Config) QOS() []string {
	var ids []string
	for _, l := range c.Lines {
		if isQOS(l.Key) {
			ids = append(ids, l.Key)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Option returns an option of SchedulerParameters as Slurm finds it: the first place where its name stands, be it
// within another name. A flag has no value.
func (c *Config) Option(name string, flag bool) (value string, there bool) {
	return option(c.Get(SchedulerParameters), name, flag)
}

func option(list, name string, flag bool) (value string, there bool) {
	if !flag {
		name += "="
	}
	at := strings.Index(strings.ToLower(list), strings.ToLower(name))
	if at < 0 || len(strings.ToLower(list)) != len(list) {
		return "", false
	}
	value, _, _ = strings.Cut(list[at+len(name):], ",")
	if flag {
		value = ""
	}
	return value, true
}

// Values returns the parameters of settings in force, with defaults where slurm.conf lacks them.
// A value that Slurm would not use is an error that names the file, the line and the range.
func (c *Config) Values(ids []string) (space.Values, error) {
	values := space.Values{}
	for _, id := range ids {
		s, known := Find(id)
		if !known {
			return nil, fmt.Errorf("%s: is not a setting that can be tuned", id)
		}
		v, err := c.value(s)
		if err != nil {
			return nil, err
		}
		if s.Kind == Weight {
			if id != s.ID {
				values[id] = space.Bool(v.Float() < 0)
				continue
			}
			v = space.Num(max(v.Float(), -v.Float()))
		}
		values[id] = v
	}
	return values, nil
}

// value is a setting in force, a Weight with its sign.
func (c *Config) value(s Setting) (space.Value, error) {
	key, name, listed := s.split()
	line, there := c.Find(key)
	text := line.Value
	switch {
	case there && key == WeightTRES:
		text, there = tres(text, name)
	case there && listed:
		text, there = option(text, name, s.Kind == Flag)
	}
	switch {
	case !there && isQOS(s.ID):
		return space.Value{}, fmt.Errorf("%s: the file does not say it", s.ID)
	case !there || text == "" && s.Kind != Flag:
		return s.value(s.Default), nil
	case s.Kind == Flag:
		return space.Bool(true), nil
	}
	v, err := s.parse(text)
	if s.ID == "PriorityDecayHalfLife" && v.Equal(space.Num(0)) {
		return v, nil // usage is reset at times instead
	}
	if err != nil {
		return v, fmt.Errorf("%s:%d: %w: correct it, as Slurm does not use it", line.File, line.Number, err)
	}
	return v, nil
}

// tres returns the weight of a generic resource in PriorityWeightTRES.
func tres(list, name string) (string, bool) {
	for item := range strings.SplitSeq(list, ",") {
		if of, weight, ok := strings.Cut(item, "="); ok && strings.EqualFold(of, "gres/"+name) {
			return weight, true
		}
	}
	return "", false
}

// Site are the items of lists that are not tuned, by key, as they are written.
func (c *Config) Site(tuned []string) map[string][]string {
	out := map[string][]string{}
	for _, key := range []string{SchedulerParameters, WeightTRES} {
		for item := range strings.SplitSeq(c.Get(key), ",") {
			if item != "" && !tunes(tuned, itemID(key, item)) {
				out[key] = append(out[key], item)
			}
		}
	}
	return out
}

func tunes(tuned []string, id string) bool {
	return slices.ContainsFunc(tuned, func(t string) bool { return strings.EqualFold(t, id) })
}

// itemID is the parameter of an item of a list.
func itemID(key, item string) string {
	name, _, _ := strings.Cut(item, "=")
	if key == WeightTRES {
		name = strings.TrimPrefix(strings.ToLower(name), "gres/")
	}
	return key + "." + name
}
