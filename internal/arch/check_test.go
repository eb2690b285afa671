// Package arch checks the structure of the repository: the allowed imports between
// layers, package comments, links between pages, and some hygiene rules. It parses
// the files itself, because the go command's output may come from its cache. Only
// its test uses it.
package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the repository's root.
const Module = "github.com/autosched/autosched"

// MaxLines is the number of lines of a hand-written file above which Check suggests
// splitting it.
const MaxLines = 800

// MaxPackageLines is the number of hand-written lines of a package, tests aside, above which it needs a reason in
// large.
const MaxPackageLines = 8000

// large has the reasons of packages above MaxPackageLines, by directory.
var large = map[string]string{}

// A Finding is a violation of a rule.
type Finding struct {
	Path string // file or directory, relative to the root
	Text string
	// Advice marks a suggestion, which is not an error.
	Advice bool
}

func (f Finding) String() string { return f.Path + ": " + f.Text }

// layer is a directory with its subdirectories.
type layer struct {
	dir string
	// level is the height of the layer. External tests may import layers of the same
	// level or below.
	level int
	// may lists the layers that its code may import besides itself, "*" for all. A
	// layer includes the layers below its directory, except for code in one of these.
	may []string
}

// resource lists the layers that the handlers of one resource of the API may import.
var resource = []string{"api/autosched/v1", "api/access", "api/convert", "api/registration", "api/server/render",
	"api/server/rpc", "controller", "service/findings", "service/reports", "service/samples", "service/store",
	"service/studies", "service/workloads", "telemetry", "study", "search", "search/effects", "rollout", "round", "space",
	"workload", "internal/checkup"}

// engine begins the paths of the engine of several nodes.
const engine = "github.com/nats-io/"

// layers lists more specific directories first.
var layers = []layer{
	{"cmd", 7, []string{"*"}},
	// Parts of commands, for all programs.
	{"internal/cli/clitest", 7, []string{"*"}},
	{"internal/cli", 7, []string{"*"}},
	{"examples", 7, []string{"*"}},
	// Experiments import everything; nothing of the product imports them (forbidden).
	{"lab", 8, []string{"*"}},
	{"api/autosched/v1", 0, nil},
	// Shared by clients and the server: messages converted to the product's types and back.
	{"api/convert", 5, []string{"api/autosched/v1", "rollout", "simulator", "telemetry", "space", "workload"}},
	{"api/registration", 5, []string{"api/autosched/v1", "api/convert", "controller", "round", "space", "workload"}},
	// The agent is a scheduler that uses the API: it imports neither the server nor
	// the service.
	{"api/agent", 6, []string{"api/autosched/v1", "api/convert", "client", "schedulers", "simulator", "space",
		"workload", "internal/atomicfile"}},
	{"api/access", 5, nil},
	{"api/reference", 0, nil},
	{"api/rest", 6, []string{"api/autosched/v1"}},
	// A scheduler's side of the public API, and adapters for schedulers that do not call it.
	{"client", 6, []string{"api/autosched/v1"}},
	// A site is described for simulations, by the commands of a Slurm cluster.
	{"adapter/site/kube", 6, []string{"adapter/site", "replay", "schedulers", "space", "workload", "internal/kubejson",
		"internal/lines"}},
	{"adapter/site", 6, []string{"space", "workload", "internal/atomicfile"}},
	{"adapter/slurm/site", 6, []string{"adapter/site", "adapter/slurm", "internal/slurmtext", "replay", "schedulers", "space", "workload",
		"internal/atomicfile"}},
	// Pages that call the API from a browser, and their tests, a Go module of its own.
	{"web/browser", 7, nil},
	{"web", 6, []string{"internal/chart"}},
	// An experiment of the adapter's module.
	{"adapter/kubernetes/rig/cmd/pay", 8, []string{"*"}},
	// The adapter of Kubernetes, a Go module of its own: nothing else imports it.
	{"adapter/kubernetes", 7, []string{"adapter", "adapter/site", "adapter/site/kube", "api/autosched/v1", "api/convert", "client", "schedulers", "space",
		"workload", "internal"}},
	{"adapter", 6, []string{"api/autosched/v1", "client", "schedulers", "space", "internal"}},
	{"conformance", 6, []string{"api/autosched/v1", "adapter", "client", "schedulers", "space"}},
	// No resource of the API knows another.
	{"api/server/admin", 6, resource},
	{"api/server/config", 6, append([]string{"schedulers"}, resource...)},
	{"api/server/explain", 6, resource},
	{"api/server/metric", 6, resource},
	{"api/server/operation", 6, resource},
	{"api/server/study", 6, resource},
	{"api/server/tuning", 6, resource},
	{"api/server/waste", 6, resource},
	{"api/server/workload", 6, resource},
	{"api/server/render", 6, append([]string{"energy"}, resource...)},
	{"api/server/forward", 6, []string{"api/access", "api/rest", "api/server/rpc"}},
	{"api/server/rpc", 6, []string{"api/autosched/v1", "api/access", "api/convert", "controller", "service/findings",
		"service/reports", "service/samples", "service/store", "service/studies", "service/workloads", "study",
		"rollout", "space"}},
	{"api/server", 6, []string{"api/autosched/v1", "api/access", "api/convert", "api/registration", "api/rest", "patterns",
		"api/server/forward",
		"telemetry", "controller", "service/findings", "service/reports", "service/samples", "service/store",
		"service/studies", "service/workloads", "study", "search", "search/effects", "rollout", "round", "energy",
		"simulator", "space", "workload", "internal/certs", "internal/checkup", "internal/cputime"}},
	{"replay/report", 6, []string{"replay", "round", "schedulers", "search", "simulator", "space", "workload", "internal"}},
	{"causal/dataset", 6, []string{"replay", "round", "search", "search/prune", "causal", "causal/model",
		"schedulers", "space", "workload", "internal/stats"}},
	{"replay", 5, []string{"rollout", "round", "fidelity", "schedulers", "search", "generation", "simulator", "space",
		"workload", "internal"}},
	// The keepers, which use the controller. Tests of the controller use the store.
	{"service/samples", 4, []string{"telemetry", "internal/atomicfile", "internal/cputime"}},
	{"service/findings", 5, []string{"controller", "patterns", "round", "service/samples", "telemetry", "workload",
		"internal/atomicfile"}},
	{"service/reports", 5, []string{"controller", "round"}},
	{"service/workloads", 5, []string{"controller", "workload", "internal/stats"}},
	{"service/studies", 5, []string{"controller", "study", "search/effects", "rollout", "space"}},
	{"service/store", 5, []string{"controller", "service/reports", "service/studies", "service/workloads", "study",
		"search", "rollout", "space", "workload", "internal/atomicfile"}},
	{"service/stores", 5, []string{"controller", "service/jet", "service/reports", "service/store", "service/studies",
		"service/workloads"}},
	// A second store, for several nodes.
	{"service/jet", 6, []string{"api/access", "controller", "service/reports", "service/store", "service/studies",
		"service/workloads", "workload", "internal/atomicfile", "internal/certs"}},
	// A client of the service, and processes under faults.
	{"service/nodetest", 6, []string{"api/autosched/v1", "client"}},
	{"service/doctor", 5, []string{"rollout", "service/findings", "service/samples", "service/store", "service/studies",
		"telemetry", "internal/checkup", "internal/units"}},
	// Every part of the service that runs.
	{"service/node", 7, []string{"api/access", "api/autosched/v1", "api/rest", "api/server", "api/server/forward",
		"api/server/rpc", "controller", "round", "service", "service/store", "space"}},
	{"service", 6, []string{"adapter/push", "api/access", "api/convert", "api/server", "client", "controller",
		"internal/checkup", "internal/cputime", "patterns", "service/doctor", "study",
		"rollout", "round", "space", "telemetry", "workload", "service/findings", "service/reports", "service/samples", "service/store",
		"service/studies", "service/workloads"}},
	{"controller/watch", 0, nil},
	{"controller/history", 4, []string{"round", "workload"}},
	{"controller", 5, []string{"patterns", "telemetry", "study", "search", "search/effects", "rollout", "round", "fidelity",
		"generation", "energy", "simulator", "space", "workload", "internal/stats"}},
	{"rollout", 5, []string{"round", "energy", "space", "internal"}},
	{"round", 4, []string{"schedulers", "search", "search/prune", "generation", "energy", "simulator", "space", "workload",
		"internal"}},
	// Faults of a cluster: rules over events and telemetry, with remedies.
	{"patterns/cluster", 3, []string{"telemetry", "energy", "workload", "internal"}},
	{"patterns", 4, []string{"telemetry", "energy", "workload", "internal"}},
	{"recommend", 5, []string{"patterns", "replay", "round", "schedulers", "simulator", "space", "workload",
		"internal"}},
	{"energy", 3, []string{"telemetry", "simulator", "workload", "internal/atomicfile", "internal/lines"}},
	{"fidelity", 4, []string{"schedulers", "simulator", "space", "workload", "internal"}},
	{"study", 4, []string{"search", "search/prune", "space"}},
	{"schedulers/volcano/conf", 3, []string{"schedulers/volcano", "schedulers/internal/queues", "space", "workload",
		"workload/kube", "workload/volcano", "internal/kubejson"}},
	{"schedulers/kueue/conf", 3, []string{"schedulers/kueue", "schedulers/internal/queues", "space", "workload",
		"workload/kube", "workload/kueue", "internal/kubejson"}},
	{"schedulers/slurm/conf", 3, []string{"schedulers/slurm", "space", "workload", "internal/lines", "internal/slurmtext",
		"internal/units"}},
	{"schedulers/slurm", 3, []string{"simulator", "space", "workload", "internal/slurmtext"}},
	{"schedulers", 3, []string{"simulator", "space", "workload", "internal/pq", "internal/slurmtext"}},
	{"search/effects", 3, []string{"search/prune", "space", "causal", "internal/stats"}},
	{"search/prune", 3, []string{"search", "space", "causal", "internal/rng", "internal/stats"}},
	{"search", 3, []string{"space", "internal/trees", "internal/rng", "internal/stats"}},
	{"generation", 3, []string{"workload", "internal/trees", "internal/rng", "internal/stats", "internal/pq"}},
	{"simulator", 2, []string{"workload", "internal/stats"}},
	{"causal/render", 2, []string{"causal", "internal/table"}},
	{"causal", 2, []string{"internal/trees", "internal/rng", "internal/stats"}},
	{"space", 1, []string{"internal/units"}},
	{"telemetry", 1, []string{"workload", "internal"}},
	{"workload/trace", 1, []string{"workload", "workload/kube", "workload/kueue", "workload/volcano", "internal/kubejson", "internal/lines",
		"internal/slurmtext"}},
	// Common to the mappings from objects of Kubernetes to events.
	{"workload/kube", 1, []string{"workload", "internal/kubejson"}},
	{"workload/kueue", 1, []string{"workload", "workload/kube", "internal/kubejson"}},
	{"workload/volcano", 1, []string{"workload", "workload/kube", "internal/kubejson"}},
	{"workload/synth", 1, []string{"workload", "internal/rng"}},
	{"workload/stats", 1, []string{"workload", "internal/pq", "internal/stats"}},
	{"workload/capacity", 1, []string{"workload", "internal/slurmtext"}},
	{"workload/fetch", 1, []string{"internal/atomicfile"}},
	{"workload", 1, nil},
	{"internal/rng", 0, nil},
	{"internal", 0, []string{"internal/rng"}},
}

// testHelpers may be imported by any test.
const testHelpers = "internal/testshared"

// testStores opens stores for tests of all that uses them.
const testStores = "service/stores"

// families is the folder of the families of commands, which do not import each other; root puts them together.
const families = "cmd/autosched/internal"

// testOnly lists the packages that only tests may import.
var testOnly = []string{testHelpers, testStores, "controller/storetest", "internal/cli/clitest", "lab/internal/window", "service/nodetest", "schedulers/internal/peers", "schedulers/internal/recorded",
	"schedulers/internal/tryout"}

// vague lists package names that do not state a purpose.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "base"}

// private lists patterns of text that depends on a developer's machine. They do not
// match themselves.
var private = []struct {
	what string
	re   *regexp.Regexp
}{
	{"a path of one machine", regexp.MustCompile(`(^|[^\w.)}])/(work|root)/`)},
	{"a host of a private network", regexp.MustCompile(`://[\w.-]+\.(internal|local|lan|corp|intranet|svc)\b`)},
	{"an address of a private network",
		regexp.MustCompile(`://(10|192\.168|172\.(1[6-9]|2\d|3[01]))(\.\d{1,3}){2,3}\b`)},
}

// generated matches the line by which the go command recognises generated files.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Check reads every file of the repository and returns the violations, in path
// order.
func Check(repo fs.FS) ([]Finding, error) {
	c, err := check(repo)
	if err != nil {
		return nil, err
	}
	return c.findings, nil
}

func check(repo fs.FS) (*checker, error) {
	c := &checker{packages: map[string]*pkg{}}
	err := fs.WalkDir(repo, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && skipDir(p) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || p == ".git" { // .git is a file in linked worktrees
			return nil
		}
		data, err := fs.ReadFile(repo, p)
		if err != nil {
			return err
		}
		c.file(p, data)
		switch path.Ext(p) {
		case ".proto":
			c.lines(p, data, nil)
		case ".md":
			c.links(repo, p, data)
			c.page(p, string(data))
		case ".tmpl", ".html", ".js", ".sh":
			if !ignoredByGo(p) {
				c.page(p, string(data))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("arch: %w", err)
	}
	if err := c.index(repo); err != nil {
		return nil, err
	}
	if len(c.packages) == 0 {
		return nil, fmt.Errorf("arch: no Go file found")
	}
	for dir, p := range c.packages {
		if p.code && !p.doc {
			c.add(dir, "package %s has no package comment", p.name)
		}
		if p.lines > MaxPackageLines && large[dir] == "" {
			c.add(dir, "package %s has %d lines, at most %d: split it", p.name, p.lines, MaxPackageLines)
		}
	}
	if err := c.accents(repo); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// skipDir reports whether a directory holds no source: .git, make's outputs, and npm's packages.
func skipDir(p string) bool {
	return slices.Contains([]string{".git", ".tools", "bin", "out", "web/node_modules"}, p)
}

type pkg struct {
	name string
	code bool // has a non-test file
	doc  bool
	// lines counts hand-written ones, tests aside.
	lines  int
	accent accent
	// imports lists the packages of the module that its code imports, tests aside.
	imports []string
}

type checker struct {
	packages map[string]*pkg // by directory
	findings []Finding
}

func (c *checker) add(p, format string, args ...any) {
	c.findings = append(c.findings, Finding{Path: p, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) file(p string, data []byte) {
	if !bytes.Contains(data[:min(len(data), 8000)], []byte{0}) {
		c.hygiene(p, data)
	}
	if strings.HasSuffix(p, ".go") && !ignoredByGo(p) {
		c.source(p, data)
	}
}

// ignoredByGo reports whether the go command ignores the file.
func ignoredByGo(p string) bool {
	for _, part := range strings.Split(p, "/") {
		if part == "testdata" || part == "vendor" || part[0] == '_' || part[0] == '.' {
			return true
		}
	}
	return false
}

func (c *checker) hygiene(p string, data []byte) {
	for _, bad := range private {
		if at := bad.re.FindIndex(data); at != nil {
			c.add(p, "line %d has %s", 1+bytes.Count(data[:at[1]], []byte("\n")), bad.what)
		}
	}
}

func (c *checker) source(p string, data []byte) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, p, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.add(p, "does not parse: %v", err)
		return
	}
	dir := path.Dir(p)
	here := layerOf(dir)
	if here == nil {
		c.add(p, "lies in no layer")
		return
	}
	kind := code
	if strings.HasSuffix(p, "_test.go") {
		kind = test
		if strings.HasSuffix(f.Name.Name, "_test") {
			kind = externalTest
		}
	}
	c.pkg(dir, f, kind)
	if !generated.Match(data) {
		c.words(p, fset, f, data)
	}
	if kind == code {
		c.constructors(p, f)
		if dir != "api/access" {
			c.contexts(p, f)
		}
	}
	for _, spec := range f.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			c.add(p, "imports %s: %v", spec.Path.Value, err)
			continue
		}
		if strings.HasPrefix(to, engine) && !within(dir, "service/jet") && !within(dir, "cmd") {
			c.add(p, "imports %s: only the store of several nodes does, and no client", to)
		}
		to, ours := inModule(to)
		if ours && kind == code {
			c.packages[dir].imports = append(c.packages[dir].imports, to)
		}
		if ours && (!here.mayImport(to, kind) || within(to, "lab") && !within(dir, "lab")) {
			c.add(p, "%s may not import %s (see internal/arch)", here.dir, to)
		}
		if within(to, families) && within(dir, families) && !within(to, dir) && dir != families+"/root" &&
			kind != externalTest {
			c.add(p, "imports %s: families of commands may not import each other", to)
		}
	}
	if generated.Match(data) {
		return
	}
	c.packages[dir].accent.add(f)
	n := bytes.Count(data, []byte("\n"))
	if kind == code {
		c.packages[dir].lines += n
	}
	if n > MaxLines {
		c.findings = append(c.findings,
			Finding{Path: p, Text: fmt.Sprintf("has %d lines: consider to split it", n), Advice: true})
	}
}

// constructors refuses goroutines in functions called New or named after it: a Run must start them.
func (c *checker) constructors(p string, f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || !constructor.MatchString(fn.Name.Name) {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				c.add(p, "%s starts a goroutine: a constructor starts none", fn.Name.Name)
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					c.add(p, "%s starts a goroutine: a constructor starts none", fn.Name.Name)
				}
			}
			return true
		})
	}
}

// constructor matches the names of constructors.
var constructor = regexp.MustCompile(`^[Nn]ew([A-Z]|$)`)

// contexts finds keys of contexts: a context carries the caller and the id of a request (api/access) alone.
func (c *checker) contexts(p string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "WithValue" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "context" {
				c.add(p, "puts a value into a context, which carries who asks alone: make it an argument")
			}
		}
		return true
	})
}

func (c *checker) pkg(dir string, f *ast.File, kind fileKind) {
	k := c.packages[dir]
	if k == nil {
		k = &pkg{name: f.Name.Name}
		c.packages[dir] = k
		for _, name := range []string{f.Name.Name, path.Base(dir)} {
			if slices.Contains(vague, strings.TrimSuffix(name, "_test")) {
				c.add(dir, "a package called %s does not say what it is for", name)
				break
			}
		}
	}
	if kind == code {
		k.code = true
		k.doc = k.doc || f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != ""
	}
}

// linked returns the packages that a program links, itself included.
func (c *checker) linked(program string) map[string]bool {
	seen := map[string]bool{program: true}
	for next := []string{program}; len(next) > 0; {
		p := c.packages[next[0]]
		next = next[1:]
		for _, to := range p.imports {
			if !seen[to] && c.packages[to] != nil {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

type fileKind int

const (
	code fileKind = iota
	test
	externalTest
)

// layerOf returns the layer of a directory, or nil.
func layerOf(dir string) *layer {
	for i := range layers {
		if within(dir, layers[i].dir) {
			return &layers[i]
		}
	}
	return nil
}

func within(dir, of string) bool { return dir == of || strings.HasPrefix(dir, of+"/") }

func inModule(importPath string) (dir string, ours bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

func (r *layer) mayImport(to string, kind fileKind) bool {
	if kind == code && slices.Contains(testOnly, to) && !slices.Contains(testOnly, r.dir) {
		return false
	}
	if within(to, r.dir) || to == testHelpers || to == testStores {
		return true
	}
	for _, m := range r.may {
		beside := kind == code && within(r.dir, m) && to != m
		if m == "*" || within(to, m) && !beside {
			return true
		}
	}
	there := layerOf(to)
	return kind == externalTest && there != nil && there.level <= r.level
}
