package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/internal/units"
)

// Flags that a settings file cannot have, and flags for a single start.
var (
	notInFile = []string{"settings", "check-settings", "help"}
	onceOnly  = []string{"start-anew", "new-epoch", "take-over"}
)

// SettingNames are the keys of a settings file: the names of flags.
func SettingNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFile, f.Name) && !slices.Contains(onceOnly, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// SettingsFlags take the other flags of a command from a file, and check them without a start.
type SettingsFlags struct {
	Path      string
	checkOnly bool
}

// Add adds the flags.
func (f *SettingsFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "settings", "", "")
	cmd.Flags().BoolVar(&f.checkOnly, "check-settings", false, "")
}

// Run reads the file, checks the settings and starts; for a check alone it reads the files that the settings name
// instead.
func (f *SettingsFlags) Run(cmd *cobra.Command, check, read, start func() error) error {
	if f.Path != "" {
		if err := ReadSettings(f.Path, cmd.Flags()); err != nil {
			return err
		}
	}
	if err := check(); err != nil {
		return err
	}
	if !f.checkOnly {
		return start()
	}
	if err := read(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "the settings are correct")
	return err
}

// ReadSettings sets flags from a YAML file whose keys are their names. Flags of the command line
// count more. The error names every fault of the file with its line; nothing is set before the whole
// file is read.
func ReadSettings(path string, flags *pflag.FlagSet) error {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("--settings: %w", err)
	}
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var faults []error
	for _, s := range ParseSettings(text, SettingNames(flags)) {
		if s.Err == nil && !given[s.Key] {
			if err := flags.Set(s.Key, s.value); err != nil {
				s.Err = fmt.Errorf("%s: %q: %w", s.Key, s.value, plainValueError(flags.Lookup(s.Key), err))
			}
		}
		if s.Err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, s.line, s.Err))
		}
	}
	if len(faults) > 0 {
		return UsageError{errors.Join(faults...)}
	}
	return nil
}

// plainValueError describes the values of a flag.
func plainValueError(f *pflag.Flag, err error) error {
	switch f.Value.Type() {
	case "int", "int64":
		return errors.New("want a whole number")
	case "bool":
		return errors.New("want true or false")
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}

// setting is a key of a settings file with its value, or its fault.
type setting struct {
	line       int
	Key, value string
	Err        error
}

// ParseSettings reads a file of settings with these keys.
func ParseSettings(text []byte, keys []string) []setting {
	var root yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := decoder.Decode(&root); err == io.EOF {
		return nil
	} else if err != nil {
		return []setting{{line: 1, Err: err}}
	}
	if err := decoder.Decode(&yaml.Node{}); err != io.EOF {
		return []setting{{line: root.Line, Err: errors.New("want one YAML document")}}
	}
	top := root.Content[0]
	if top.Tag == "!!null" {
		return nil
	}
	if top.Kind != yaml.MappingNode {
		return []setting{{line: top.Line, Err: errors.New(`want "key: value" lines`)}}
	}
	var out []setting
	seen := map[string]int{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		s := setting{line: top.Content[i].Line, Key: top.Content[i].Value}
		switch first := seen[s.Key]; {
		case slices.Contains(onceOnly, s.Key):
			s.Err = fmt.Errorf("%s is for one start: give --%s", s.Key, s.Key)
		case !slices.Contains(keys, s.Key):
			s.Err = fmt.Errorf("unknown key %q; --help lists them", s.Key)
			if near := nearest(s.Key, keys); near != "" {
				s.Err = fmt.Errorf("unknown key %q; do you mean %q?", s.Key, near)
			}
		case first > 0:
			s.Err = fmt.Errorf("%s is set in line %d already", s.Key, first)
		default:
			seen[s.Key] = s.line
			s.value, s.Err = settingValue(top.Content[i+1])
			if s.Err != nil {
				s.Err = fmt.Errorf("%s: %w", s.Key, s.Err)
			}
		}
		out = append(out, s)
	}
	return out
}

// settingValue is a value as a flag takes it: a list becomes one text with commas.
func settingValue(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "", errors.New("aliases have no meaning here")
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", errors.New("it has no value: write one, or remove the line")
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind != yaml.SequenceNode:
		return "", errors.New("want a value or a list of values")
	}
	parts := make([]string, len(n.Content))
	for i, one := range n.Content {
		if one.Kind != yaml.ScalarNode || strings.Contains(one.Value, ",") {
			return "", errors.New("want a list of values without commas")
		}
		parts[i] = one.Value
	}
	return strings.Join(parts, ","), nil
}

// nearest returns the key that was meant, "" if none is close.
func nearest(key string, keys []string) string {
	best, least := "", 1+len(key)/3
	for _, k := range keys {
		if d := units.Distance(strings.ReplaceAll(strings.ToLower(key), "_", "-"), k); d <= least {
			best, least = k, d-1
		}
	}
	return best
}
