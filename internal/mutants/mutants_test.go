package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// mutant is a bug: a file of the repository with one piece of text replaced. A test of the file's
// package, or of pkg, finds it.
type mutant struct {
	name, file, old, new string
	pkg, test            string
}

// Each breaks a promise of the service on its own.
var mutants = []mutant{
	{"acknowledged before it is stored", "controller/store/segments.go",
		"case err := <-call.done:\n\t\treturn err", "case <-call.done:\n\t\treturn nil\n\tdefault:\n\t\treturn nil",
		"", "TestNothingAcknowledgedIsLost"},
	{"checksums are not checked", "controller/store/record.go", "got != want {", "false && got != want {", "",
		"TestDamagedRecordCostsItself"},
	{"one meta page knows a change", "controller/store/config.go", "if err == nil { // an empty commit",
		"if false { // an empty commit", "", "TestDamagedMetaPage"},
	{"revisions may be left out", "controller/store/config.go", "if cfg.Revision != next {", "if false {", "",
		"TestRevisionsOnlyGoForward"},
	{"the values of a revision change", "controller/store/config.go", "if before.Hash != cfg.Hash ||", "if false &&", "",
		"TestRevisionsOnlyGoForward"},
	{"a directory that lost its config.db is new", "controller/store/store.go", "if !startAnew {", "if false {", "",
		"TestLostConfigIsRefused"},
	{"a refusal is ignored", "rollout/instances.go", "if ack.State == AckRejected {", "if false {", "",
		"TestStep"},
	{"an operator goes back to parked values", "rollout/rollout.go",
		"case t.parked(to.Hash) != nil:\n\t\treturn t.refused(to)", "case false:", "", "TestStep"},
	{"parked values are adopted", "rollout/rollout.go", "if p := s.parked(hash); p != nil {", "if p := s.parked(hash); false {", "", "TestCheckAdoption"},
	{"quiet hours are ignored", "rollout/hold.go", "if q.include(at) {", "if false {", "", "TestHold"},
	{"the exit checks nothing", "controller/service.go", "if err := sp.Check(c); err != nil {",
		"if true {\n\t\treturn c, nil\n\t}\n\tif err := sp.Check(c); err != nil {", "", "TestTheExitLetsOnlyTheSpacePass"},
	{"events count twice", "controller/ingest.go", "} else if dup {", "} else if false {", "",
		"TestIngestSortsOut"},
	{"the judge takes nothing back", "controller/judge.go", "case trial.Verdict.Judgement == round.Worse:",
		"case false:", "", "TestRegressionIsTakenBack"},
	{"a change may follow at once", "round/weigh.go", "case w.dwelling && c.own < UrgentRatio:", "case false:", "",
		"TestWeighedRule"},
	{"nobody is woken", "controller/watch/watch.go", "case s.c <- struct{}{}:", "case <-s.c:", "", "TestChangesCoalesce"},
	{"a former epoch is accepted", "controller/epoch.go", "case e == now:", "case true:", "api/server",
		"TestFormerEpochIsRefused"},
	{"schedulers act for each other", "api/server/access.go", "if !s.rule.allows(s.caller, id) {", "if false {", "",
		"TestSchedulerOfItsOwn"},
	{"records of the audit may be left out", "controller/audit/audit.go",
		"case r.Sequence != c.head.Sequence+1:", "case false:", "", "TestRecordsKeepTheirPlaces"},
	{"every role may call every method", "api/server/access.go", "if slices.Contains(r.roles, c.Role) {", "if true {",
		"", "TestAccessMatrix"},
	{"the judge looks at another objective", "round/judge.go", "Options: in.Simulator, Goal: in.Goal}, x)",
		`Options: in.Simulator, Goal: Minimise("makespan")}, x)`, "", "TestJudge"},
	{"retention drops what is written", "controller/store/retain.go", "|| dayOf(names[first]) >= before {", "{", "",
		"TestDropsSurviveACrash"},
	{"a round is not stored", "controller/record.go",
		"err = s.o.Store.KeepRound(m.snapshot.Load().UID, r.Sequence, text, s.o.KeepRounds)", "_ = text", "",
		"TestKeptRounds"},
	{"a revoked token is accepted", "api/access/source.go", "s.current.Store(&m)\n\ts.stale", "_ = m\n\ts.stale", "",
		"TestRevokedToken"},
	{"records of the audit may be exchanged", "controller/audit/audit.go", "case r.Previous != c.head.Hash:",
		"case false:", "", "TestRecordsKeepTheirPlaces"},
}

// TestEveryBugIsFound builds each mutant with the go command's overlay, so that nothing is written to
// the tree, and runs the test that is to find it.
func TestEveryBugIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test for each bug")
	}
	root := testshared.Root(t)
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, filepath.FromSlash(m.file))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(m.old)); n != 1 {
				t.Fatalf("%s has this text %d times: adapt the bug to the code\n%s", m.file, n, m.old)
			}
			dir := t.TempDir()
			changed := filepath.Join(dir, "changed.go")
			if err := os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			pkg := m.pkg
			if pkg == "" {
				pkg = filepath.ToSlash(filepath.Dir(m.file))
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-v", "-short", "-vet=off", "-count=1", "-timeout=5m",
				"-overlay", filepath.Join(dir, "overlay.json"), "-run", "^"+m.test+"$", "./"+pkg)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "AUTOSCHED_KILLS=8")
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
