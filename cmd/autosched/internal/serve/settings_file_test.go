package serve

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestSettingsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.yaml")
	read := func(text string, args ...string) (*serveOptions, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, o := serveCommand()
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return o, cli.ReadSettings(path, cmd.Flags())
	}
	o, err := read("dir: data\npoll-after: 1m\nallow-plaintext: true\ndrain: 5s\n", "--drain", "7s")
	if err != nil || o.dir != "data" || o.pollAfter != time.Minute || !o.access.AllowPlaintext ||
		o.drain != 7*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if _, err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"dir: a\nlistn: x":            `:2: unknown key "listn"; do you mean "listen"?`,
		"poll_after: 1s":              `:1: unknown key "poll_after"; do you mean "poll-after"?`,
		"zzzzzz: 1s":                  `:1: unknown key "zzzzzz"; --help lists them`,
		"settings: x":                 `:1: unknown key "settings"`,
		"start-anew: true":            ":1: start-anew is for one start: give --start-anew",
		"dir: a\n\ndir: b":            ":3: dir is set in line 1 already",
		"dir:":                        ":1: dir: it has no value",
		"dir: {a: b}":                 ":1: dir: want a value",
		"dir: [[a]]":                  ":1: dir: want a list",
		"drain: 5":                    `:1: drain: "5": time: missing unit`,
		"workers: many":               `:1: workers: "many": want a whole number`,
		"allow-plaintext: maybe":      `:1: allow-plaintext: "maybe": want true or false`,
		"dir: a\nx: 1\ndrain: soon\n": `:3: drain: "soon"`,
		"- dir":                       `:1: want "key: value" lines`,
		"dir: a\n---\ndir: b":         "want one YAML document",
		"dir: [":                      ":1: yaml",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), path+want) &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	// All faults at once, and nothing of the service is made.
	data := filepath.Join(t.TempDir(), "data")
	if _, err := read("dir: " + data + "\nx: 1\ny: 2\n"); err == nil || strings.Count(err.Error(), "unknown key") != 2 {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"x: 1":                              "unknown key",
		"log-format: xml":                   "--log-format: \"xml\" is neither text nor json",
		"log-level: loud":                   "--log-level",
		"otlp-endpoint: collector:4317":     "--otlp-endpoint",
		"otlp-endpoint: http://a.b:4317":    "use https",
		"otlp-ratio: 2":                     "--otlp-ratio",
		"listen: 0.0.0.0:1":                 "not a loopback address",
		"tls-cert: none.pem\ntls-key: none": "none.pem",
	} {
		if err := os.WriteFile(path, []byte("dir: "+data+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"serve", "--settings", path, "--check-settings"},
			{"serve", "--settings", path}} {
			if code, _, errs := clitest.Run(args...); code == 0 || !strings.Contains(errs, want) {
				t.Errorf("%v of %q: exit %d, %s", args, text, code, errs)
			}
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a directory was made for wrong settings")
	}
}

// TestSettingsExample: the example is correct, and has only settings that the page lists.
func TestSettingsExample(t *testing.T) {
	example := filepath.Join("..", "..", "..", "..", "examples", "serve.yaml")
	if code, out, errs := clitest.Run("serve", "--settings", example, "--check-settings"); code != 0 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("dir: data\nlisten: [a, b]\n")
	f.Add("a: &x 1\nb: *x\n")
	cmd, _ := serveCommand()
	keys := cli.SettingNames(cmd.Flags())
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range cli.ParseSettings([]byte(text), keys) {
			if s.Err == nil && !slices.Contains(keys, s.Key) {
				t.Errorf("%q is no key", s.Key)
			}
		}
	})
}
