package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/autosched/autosched/internal/testshared"
)

// TestRepository checks this repository.
func TestRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the whole repository")
	}
	root := testshared.Root(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(mod), "module "+Module+"\n") {
		t.Fatalf("go.mod is not that of %s", Module)
	}
	findings, err := Check(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Advice {
			t.Log(f)
		} else {
			t.Error(f)
		}
	}
}

// file returns a Go file with a package comment and the given imports.
func file(pkg string, imports ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Package %s is made up.\npackage %s\n", pkg, pkg)
	for _, i := range imports {
		fmt.Fprintf(&b, "import _ %q\n", Module+"/"+i)
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	long := file("space") + strings.Repeat("// more\n", MaxLines)
	tests := []struct {
		name string
		path string
		text string
		want string // part of the one finding; empty for none
	}{
		{"the standard library", "space/a.go", "// Package space.\npackage space\nimport _ \"fmt\"\n", ""},
		{"a module with the same prefix", "space/a.go",
			"// Package space.\npackage space\nimport _ \"" + Module + "x/causal\"\n", ""},
		{"down", "search/prune/a.go", file("prune", "space", "causal", "search"), ""},
		{"a search without a model of causes", "search/a.go", file("search", "causal"), "search may not import causal"},
		{"a folder of one's own layer", "controller/a.go", file("controller", "controller/queue"), ""},
		{"a folder of a layer below", "cmd/autosched/a.go", file("main", "schedulers/tiresias"), ""},
		{"a constructor that starts", "space/a.go", "// Package space.\npackage space\nfunc NewA() { go f() }\n",
			"NewA starts a goroutine"},
		{"a constructor that starts in a group", "space/a.go",
			"// Package space.\npackage space\nfunc (a *a) newB() { a.wg.Go(f) }\n", "newB starts a goroutine"},
		{"a function that starts", "space/a.go", "// Package space.\npackage space\nfunc Newest() { go f() }\n", ""},
		{"a test's constructor", "space/a_test.go", "package space\nfunc newA() { go f() }\n", ""},
		{"the controller runs no keeper", "controller/a.go",
			file("controller", "service/studies"), "controller may not import service/studies"},
		{"a keeper runs no service", "service/reports/a.go",
			file("reports", "service"), "service/reports may not import service"},
		{"server and its protocol", "api/server/a.go", file("server", "api/autosched/v1", "controller"), ""},
		{"an example is a user", "examples/client/a.go", file("main", "api/autosched/v1", "space"), ""},
		{"up", "workload/a.go", file("workload", "simulator"), "workload may not import simulator"},
		{"an evaluation without the service", "replay/a.go",
			file("replay", "controller"), "replay may not import controller"},
		{"an evaluation needs no experiment", "replay/a.go", file("replay", "lab"), "replay may not import lab"},
		{"the service needs no experiment", "controller/a.go",
			file("controller", "lab"), "controller may not import lab"},
		{"a family needs what all programs have", "cmd/autosched/internal/waste/a.go", file("waste", "internal/cli"), ""},
		{"a family needs no other", "cmd/autosched/internal/waste/a.go", file("waste", "cmd/autosched/internal/decide"),
			"families of commands may not import each other"},
		{"the root needs all families", "cmd/autosched/internal/root/a.go", file("root", "cmd/autosched/internal/decide"), ""},
		{"a command needs no experiment", "cmd/autosched/tune.go", file("main", "lab/portfolio"), "cmd may not import lab"},
		{"a test needs no experiment", "search/a_test.go", file("search", "lab/objectives"), "search may not import lab"},
		{"an experiment needs everything", "lab/cmd/autosched-lab/a.go", file("main", "lab/portfolio", "replay"), ""},
		{"the round knows no service", "round/a.go", file("round", "controller"), "round may not import controller"},
		{"a client knows no service", "api/agent/a.go",
			file("agent", "controller"), "api/agent may not import controller"},
		{"from below", "workload/stats/a.go", file("stats", "workload"), ""},
		{"beside, below", "workload/stats/a.go",
			file("stats", "workload/trace"), "workload/stats may not import workload/trace"},
		{"beside, in a test", "workload/stats/a_test.go", file("stats", "workload/trace"), ""},
		{"up, from a folder", "schedulers/tiresias/a.go",
			file("tiresias", "controller"), "schedulers may not import controller"},
		{"beside", "space/a.go", file("space", "workload"), "space may not import workload"},
		{"search knows no job", "search/a.go", file("search", "workload"), "search may not import workload"},
		{"simulator knows no parameter", "simulator/a.go",
			file("simulator", "space"), "simulator may not import space"},
		{"a helper not granted", "causal/a.go",
			file("causal", "internal/atomicfile"), "causal may not import internal/atomicfile"},
		{"a directory with the same prefix", "causal/a.go",
			file("causal", "internal/treesort"), "causal may not import internal/treesort"},
		{"helpers stay below", "internal/trees/a.go", file("trees", "workload"), "internal may not import workload"},
		{"helpers of helpers", "internal/trees/a.go", file("trees", "internal/atomicfile"), ""},
		{"the protocol stands alone", "api/autosched/v1/a.go",
			file("v1", "space"), "api/autosched/v1 may not import space"},
		{"the controller speaks no protocol", "controller/a.go",
			file("controller", "api/autosched/v1"), "controller may not import api/autosched/v1"},
		{"the server is not below the controller", "controller/a.go",
			file("controller", "api/server"), "controller may not import api/server"},
		{"no import of the command", "api/server/a.go",
			file("server", "cmd/autosched"), "may not import cmd/autosched"},
		{"the root is no layer", "space/a.go", "// Package space.\npackage space\nimport _ \"" + Module + "\"\n",
			"space may not import ."},
		{"a stray package", "a.go", file("autosched"), "lies in no layer"},
		{"a stray folder", "pkg/a.go", file("pkg"), "lies in no layer"},
		{"not beside the layers of api", "api/a.go", file("api"), "lies in no layer"},

		{"test data in code", "workload/a.go", file("workload", "internal/testshared"),
			"workload may not import internal/testshared"},
		{"a peer's policy in code", "schedulers/a.go",
			file("schedulers", "schedulers/internal/peers"), "schedulers may not import schedulers/internal/peers"},
		{"a peer's policy in a test", "schedulers/a_test.go", file("schedulers", "schedulers/internal/peers"), ""},
		{"test data in a test", "workload/a_test.go", file("workload", "internal/testshared"), ""},
		{"test data in an external test", "space/a_test.go", file("space_test", "internal/testshared"), ""},
		{"an internal test is like code", "simulator/a_test.go",
			file("simulator", "causal"), "simulator may not import causal"},
		{"an external test, below", "search/a_test.go", file("search_test", "simulator", "workload"), ""},
		{"an external test, beside", "search/a_test.go", file("search_test", "schedulers"), ""},
		{"an external test, above", "simulator/a_test.go",
			file("simulator_test", "schedulers"), "simulator may not import schedulers"},

		{"no package comment", "space/a.go", "package space\n", "package space has no package comment"},
		{"a comment that is not the package's", "space/a.go", "// License.\n\npackage space\n", "no package comment"},
		{"tests alone need no comment", "space/a_test.go", "package space\n", ""},
		{"a command needs one too", "cmd/autosched/main.go", "package main\n", "package main has no package comment"},
		{"a vague name", "internal/util/a.go", file("util"), "a package called util"},
		{"a vague folder", "internal/helpers/a.go", file("trees"), "a package called helpers"},
		{"a vague test", "internal/common/a_test.go", file("common_test"), "a package called common"},
		{"a broken file", "space/a.go", "// Package space.\npackage space\nimport (", "does not parse"},
		{"what the go command ignores", "space/testdata/a.go", "package util\n", ""},
		{"a long file", "space/a.go", long, "has 802 lines"},
		{"a long generated file", "space/a.go", "// Code generated by hand. DO NOT EDIT.\n\n" + long, ""},

		{"a path in code", "space/a.go", file("space") + "// see /wo" + "rk/x\n", "line 3 has a path of one machine"},
		{"a path at the start of a line", "docs/a.md", "\n/wo" + "rk/x\n", "line 2 has a path of one machine"},
		{"a home", "Makefile", "all: /ro" + "ot/go\n", "a path of one machine"},
		{"a path inside a path", "docs/a.md", "src/work/x and ./root/x and $(OUT)/work/x\n", ""},
		{"a hidden host", "docs/a.md", "https:/" + "/go.mirror.internal/x\n", "a host of a private network"},
		{"a hidden address", ".ci/run", "http:/" + "/10.1.2.3:80/\n", "an address of a private network"},
		{"a public address", "docs/a.md", "http:/" + "/10.example.org/ http:/" + "/8.8.8.8/\n", ""},
		{"binary files are not text", "docs/a.png", "\x00 /wo" + "rk/x", ""},
		{"what make writes", "out/a.md", "/wo" + "rk/x\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			repo := fstest.MapFS{
				"causal/doc.go": {Data: []byte(file("causal"))},
				tt.path:         {Data: []byte(tt.text)},
			}
			findings, err := Check(repo)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if len(findings) > 0 {
					t.Errorf("found %v", findings)
				}
				return
			}
			if len(findings) != 1 || !strings.Contains(findings[0].String(), tt.want) {
				t.Fatalf("found %v, want one that says %q", findings, tt.want)
			}
			if !strings.HasPrefix(tt.path, findings[0].Path) {
				t.Errorf("found in %s, want %s", findings[0].Path, tt.path)
			}
			if advice := strings.Contains(tt.name, "long"); findings[0].Advice != advice {
				t.Errorf("advice is %v, want %v", findings[0].Advice, advice)
			}
		})
	}
}

func TestCheckWantsFiles(t *testing.T) {
	if _, err := Check(fstest.MapFS{"README.md": {Data: []byte("hello")}}); err == nil {
		t.Error("a repository without Go files passed")
	}
}

// TestOneCommentIsEnough checks that any file of a package may have its comment.
func TestOneCommentIsEnough(t *testing.T) {
	findings, err := Check(fstest.MapFS{
		"space/a.go":      {Data: []byte("package space\n")},
		"space/doc.go":    {Data: []byte(file("space"))},
		"space/z.go":      {Data: []byte("package space\n")},
		"space/x_test.go": {Data: []byte("package space_test\n")},
	})
	if err != nil || len(findings) > 0 {
		t.Errorf("found %v, %v", findings, err)
	}
}
