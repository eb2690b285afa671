package kube_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/site/kube"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/space"
)

func encode(r site.Registration) ([]byte, error) { return []byte("{}"), nil }

// written is a folder of the queues of a recording.
func written(t *testing.T, name string) (site.Folder, *kube.Description) {
	t.Helper()
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", name))
	if err != nil {
		t.Fatal(err)
	}
	d, err := kube.Describe("prod", map[string][]byte{"queues.json": queues})
	if err != nil {
		t.Fatal(err)
	}
	folder := site.Folder(filepath.Join(t.TempDir(), "site"))
	if err := d.Write(folder, encode); err != nil {
		t.Fatal(err)
	}
	return folder, d
}

// TestChange: a script that sh takes has one command for each queue that changes, and the way back.
func TestChange(t *testing.T) {
	folder, _ := written(t, "kueue.limits.json")
	if missing := folder.Missing(kube.Queues, kube.History); missing != "" {
		t.Fatal(missing)
	}
	param := func(id string) space.Param {
		return space.Param{ID: id, Kind: space.KindFloat, Max: 1, Default: space.Num(1)}
	}
	of, err := space.New([]space.Param{param("borrowingLimit"), param("tenant-0.lendingLimit"), {
		ID: "queueingStrategy", Kind: space.KindCategorical, Categories: []string{"StrictFIFO", "BestEffortFIFO"},
		Default: space.Text("StrictFIFO")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, _ := of.Project(space.Values{"borrowingLimit": space.Num(1), "tenant-0.lendingLimit": space.Num(.25),
		"queueingStrategy": space.Text("StrictFIFO")})
	script := filepath.Join(t.TempDir(), "tuned.sh")
	c, err := kube.Change(folder, to, script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(c.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command("sh", append([]string{script}, args...)...)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	does, undo := run("--dry-run=server"), run("undo")
	const resource = "/spec/resourceGroups/0/flavors/0/resources/0/"
	for _, want := range []string{"patch clusterqueue tenant-0 --type=json -p [", resource + "lendingLimit",
		" --dry-run=server\n"} {
		if !strings.Contains(does, want) {
			t.Errorf("no %q in %s", want, does)
		}
	}
	if strings.Count(does, "\n") != strings.Count(undo, "\n") || strings.Contains(undo, "dry-run") ||
		!strings.HasPrefix(undo, "patch clusterqueue tenant-2 ") {
		t.Errorf("%s\n%s", does, undo)
	}
	if !strings.Contains(c.Patch, "+tenant-0 lendingLimit: 8\n") || len(c.Commands) != 3 {
		t.Errorf("%s %q", c.Patch, c.Commands)
	}
}

// TestNothing: settings that are in force are no change.
func TestNothing(t *testing.T) {
	folder, _ := written(t, "kueue.strict.json")
	of, err := space.New([]space.Param{{ID: "queueingStrategy", Kind: space.KindCategorical,
		Categories: []string{"StrictFIFO", "BestEffortFIFO"}, Default: space.Text("StrictFIFO")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.Change(folder, of.Default(), "x")
	if err != nil || c.Patch != "" || strings.Contains(c.Text, "kubectl patch") {
		t.Errorf("%+v %v", c, err)
	}
}

// TestFaults: errors name the file or say what is missing.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "List", "items": []}`: "there is no ClusterQueue",
		`{"kind": `:                     "x.json",
	} {
		if _, err := kube.Describe("prod", map[string][]byte{"x.json": []byte(text)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
