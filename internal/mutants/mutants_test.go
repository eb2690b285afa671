package mutants

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// mutant is a bug: a file of the repository with one piece of text replaced, in which on means that the bug is
// the one to run with. A test of the file's package, or of pkg, finds it.
type mutant struct {
	name, file, old, new string
	pkg, test            string
}

// Each breaks a promise of the service on its own.
var mutants = []mutant{
	{"acknowledged before it is stored", "service/store/segments.go",
		"\tselect {\n\tcase err := <-call.done:",
		"\tif ON {\n\t\treturn nil\n\t}\n\tselect {\n\tcase err := <-call.done:",
		"", "TestNothingAcknowledgedIsLost"},
	{"checksums are not checked", "service/store/record.go", "got != want {", "!ON && got != want {", "",
		"TestDamagedRecordCostsItself"},
	{"one meta page knows a change", "service/store/config.go", "if err == nil { // an empty commit",
		"if err == nil && !ON { // an empty commit", "", "TestDamagedMetaPage"},
	{"revisions may be left out", "service/store/config.go", "if cfg.Revision != next {",
		"if !ON && cfg.Revision != next {", "", "TestRevisionsOnlyGoForward"},
	{"the values of a revision change", "service/store/config.go", "if before.Hash != cfg.Hash ||",
		"if !ON && before.Hash != cfg.Hash || !ON &&", "", "TestRevisionsOnlyGoForward"},
	{"records for newer readers are read", "service/store/layout.go", "case reader > readerVersion:",
		"case !ON && reader > readerVersion:", "", "TestNewerDirectoryIsRefused"},
	{"a freeze needs no reader version", "service/store/layout.go", "if err != nil || version <= before {",
		"if ON || err != nil || version <= before {", "", "TestReaderIsRaisedWithTheRecord"},
	{"a directory is not upgraded", "service/store/layout.go", "if err != nil || layout == layoutVersion {",
		"if ON || err != nil || layout == layoutVersion {", "", "TestLayout1IsUpgraded"},
	{"a directory that lost its config.db is new", "service/store/store.go", "if !startAnew {",
		"if !ON && !startAnew {", "", "TestLostConfigIsRefused"},
	{"a refusal is ignored", "rollout/instances.go", "if ack.State == AckRejected {",
		"if !ON && ack.State == AckRejected {", "", "TestStep"},
	{"an operator goes back to parked values", "rollout/rollout.go",
		"case t.parked(to.Hash) != nil:\n\t\treturn t.refused(to)",
		"case !ON && t.parked(to.Hash) != nil:\n\t\treturn t.refused(to)", "", "TestStep"},
	{"parked values are adopted", "rollout/rollout.go", "if p := s.parked(hash); p != nil {",
		"if p := s.parked(hash); !ON && p != nil {", "", "TestCheckAdoption"},
	{"quiet hours are ignored", "rollout/hold.go", "if q.include(at) {", "if !ON && q.include(at) {", "", "TestHold"},
	{"the exit checks nothing", "controller/service.go", "if err := sp.Check(c); err != nil {",
		"if ON {\n\t\treturn c, nil\n\t}\n\tif err := sp.Check(c); err != nil {", "",
		"TestTheExitLetsOnlyTheSpacePass"},
	{"events count twice", "controller/history/history.go", "} else if dup {", "} else if !ON && dup {", "controller",
		"TestIngestSortsOut"},
	{"the judge raises no alarm", "controller/judge.go", "case trial.Verdict.Judgement == round.Worse &&",
		"case !ON && trial.Verdict.Judgement == round.Worse &&", "", "TestAlarm"},
	{"one promise is enough", "round/fast.go", "now[hash] >= fastRounds {", "ON || now[hash] >= fastRounds {", "",
		"TestFastPath"},
	{"guards refuse nothing", "round/answer.go", "case len(c.Breaks) > 0 && a.Guard >= 0 && !must:",
		"case !ON && len(c.Breaks) > 0 && a.Guard >= 0 && !must:", "", "TestRule"},
	{"nobody is woken", "controller/watch/watch.go", "\t\tselect {\n\t\tcase s.c <- struct{}{}:",
		"\t\tif ON {\n\t\t\tcontinue\n\t\t}\n\t\tselect {\n\t\tcase s.c <- struct{}{}:", "", "TestChangesCoalesce"},
	{"a former epoch is accepted", "controller/epoch.go", "case e == now:", "case ON || e == now:", "api/server",
		"TestFormerEpochIsRefused"},
	{"schedulers act for each other", "api/server/access.go", "if !s.rule.allows(s.caller, id) {",
		"if !ON && !s.rule.allows(s.caller, id) {", "", "TestSchedulerOfItsOwn"},
	{"records of the audit may be left out", "controller/audit/audit.go",
		"case r.Sequence != head.Sequence+1:", "case !ON && r.Sequence != head.Sequence+1:", "",
		"TestRecordsKeepTheirPlaces"},
	{"every role may call every method", "api/server/access.go", "if slices.Contains(r.roles, c.Role) {",
		"if ON || slices.Contains(r.roles, c.Role) {", "", "TestAccessMatrix"},
	{"the judge looks at another objective", "round/judge.go", "Options: in.Simulator, Goal: in.Goal,",
		`Options: in.Simulator, Goal: map[bool]Goal{true: Minimise("makespan"), false: in.Goal}[ON],`, "",
		"TestJudge"},
	{"retention drops what is written", "service/store/retain.go", "|| dayOf(names[first]) >= before {",
		"|| !ON && dayOf(names[first]) >= before {", "", "TestDropsSurviveACrash"},
	{"a round is not stored", "controller/record.go",
		"err = s.o.Store.KeepRound(m.snapshot.Load().UID, r.Sequence, text, s.o.KeepRounds)",
		"if !ON {\n\t\t\terr = s.o.Store.KeepRound(m.snapshot.Load().UID, r.Sequence, text, s.o.KeepRounds)\n\t\t}", "",
		"TestKeptRounds"},
	{"a revoked token is accepted", "api/access/source.go", "s.current.Store(&m)\n\ts.stale",
		"if !ON {\n\t\ts.current.Store(&m)\n\t}\n\ts.stale", "", "TestRevokedToken"},
	{"leases never expire", "study/step.go", "if !one.expired(t.at) {", "if ON || !one.expired(t.at) {", "", "TestLeases"},
	{"what was measured is measured again", "study/step.go", "if one.State == Succeeded && one.SameAs == 0 {",
		"if !ON && one.State == Succeeded && one.SameAs == 0 {", "", "TestRepeats"},
	{"a trial is answered before it is stored", "service/studies/studies.go", "err = wait()\n\tm.mu.Lock()",
		"if !ON {\n\t\terr = wait()\n\t}\n\tm.mu.Lock()", "", "TestClientsOnAFailingDisk"},
	{"changes of trials are not audited", "service/studies/studies.go", "if fields == nil {",
		"if ON || fields == nil {", "", "TestAuditOfTrials"},
	{"studies change out of order", "service/store/studies.go", "if before.Version+1 != c.Study.Version ||",
		"if !ON && before.Version+1 != c.Study.Version ||", "", "TestStudies"},
	{"records of the audit may be exchanged", "controller/audit/audit.go", "case r.Previous != head.Hash:",
		"case !ON && r.Previous != head.Hash:", "", "TestRecordsKeepTheirPlaces"},
}

// all are the bugs of every area.
var all = slices.Concat(mutants, accessMutants, historyMutants, patternsMutants, slurmMutants, telemetryMutants)

// selected is the variable of a package that names the bug to run with.
const selected = "mutantsSelected"

func (m mutant) testPackage() string {
	if m.pkg != "" {
		return m.pkg
	}
	return filepath.ToSlash(filepath.Dir(m.file))
}

// build compiles the tests of all bugs' packages into dir, with the go command's overlay, so that nothing is
// written to the tree.
func build(t *testing.T, root, dir string) {
	t.Helper()
	texts, packages := map[string]string{}, map[string]bool{}
	for _, m := range all {
		file := filepath.Join(root, filepath.FromSlash(m.file))
		text, read := texts[file]
		if !read {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
			texts[filepath.Join(filepath.Dir(file), selected+".go")] = fmt.Sprintf("package %s\n\n"+
				"import \"os\"\n\nvar %s = os.Getenv(%q)\n", path.Base(path.Dir(m.file)), selected, selected)
		}
		if n := strings.Count(text, m.old); n != 1 {
			t.Fatalf("%s has this text %d times: adapt the bug to the code\n%s", m.file, n, m.old)
		}
		on := fmt.Sprintf("(%s == %q)", selected, m.name)
		texts[file] = strings.Replace(text, m.old, strings.ReplaceAll(m.new, "ON", on), 1)
		packages["./"+m.testPackage()] = true
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir + "/"}
	cmd := exec.CommandContext(t.Context(), "go", append(args, slices.Sorted(maps.Keys(packages))...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestEveryBugIsFound builds the tests with all bugs, and runs the test that is to find one with that one.
func TestEveryBugIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of many packages")
	}
	root, dir := testshared.Root(t), t.TempDir()
	build(t, root, dir)
	for _, m := range all {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, path.Base(m.testPackage())+".test"),
				"-test.v", "-test.short", "-test.timeout=5m", "-test.run=^"+m.test+"$")
			cmd.Dir = filepath.Join(root, filepath.FromSlash(m.testPackage()))
			cmd.Env = append(os.Environ(), selected+"="+m.name, "AUTOSCHED_KILLS=8", "RAPID_CHECKS=100")
			out, err := cmd.CombinedOutput()
			switch {
			case strings.Contains(string(out), "--- SKIP: "+m.test+" "):
				t.Skipf("%s is skipped here", m.test)
			case !strings.Contains(string(out), "=== RUN   "+m.test+"\n"):
				t.Fatalf("%s did not run:\n%s", m.test, out)
			case err == nil:
				t.Errorf("%s does not find it", m.test)
			}
		})
	}
}
