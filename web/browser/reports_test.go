package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// belowScreen are the parts of a page's answer that begin or end below the first screen: the sentence and the picture.
const belowScreen = `(() => {
  const shown = (e) => e.getBoundingClientRect().height > 0;
  const parts = { sentence: document.querySelector(".verdict h2"), picture: [...document.querySelectorAll("svg.fig")].find(shown) };
  return Object.entries(parts).filter(([, e]) => !e || e.getBoundingClientRect().bottom > innerHeight || e.getBoundingClientRect().top < 0)
    .map(([name]) => name);
})()`

// TestReports: pages that commands write have neither clipped nor overlapping text, on a phone, a laptop and a wide
// screen. The laptop's first screen has the answer in words and one picture.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	const small = " --trace sample --to 2017-10-09T06:00:00Z --nodes 16"
	pages, lab := map[string]string{}, filepath.Join(dir, "autosched-lab")
	build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-o", lab, "./lab/cmd/autosched-lab")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	runs, tiers, graph := filepath.Join(dir, "runs.csv"), filepath.Join(dir, "tiers.json"), filepath.Join(dir, "graph.json")
	for _, command := range []string{
		"evaluate" + small + " --budget 6 --futures 2 --horizon 1h --methods default,preset --out DIR --plot DIR/figures.html",
		"compare" + small + " --schedulers fifo,sjf,srtf,tiresias,themis,lucid,gandiva,gavel,astraea,optimus,pollux,chronus" +
			" --out DIR --plot DIR/figures.html",
		"tune --trace sample --at 2017-10-10T12:00:00Z --nodes 20 --budget 16 --futures 2" +
			" --subject-to p99_jct<=1.1*incumbent --pareto avg_jct,p99_jct --plot DIR/figures.html",
		"trace stats sample --nodes 16 --plot DIR/figures.html",
		"simulate" + small + " --scheduler tiresias --plot DIR/figures.html",
		"energy report" + small + " --scheduler fifo --plot DIR/figures.html",
		"fidelity --trace ../../examples/tutorial/sacct.psv --nodes 8 --scheduler fifo --recorded-scheduler fifo" +
			" --plot DIR/figures.html",
		"plan" + small + " --subject-to p95_queue<=6h --plot DIR/figures.html",
		"forecast eval --trace sample --from 2017-10-11T00:00:00Z --to 2017-10-12T00:00:00Z --futures 5 --methods all" +
			" --plot DIR/figures.html",
		"forecast durations eval --trace sample --plot DIR/figures.html",
		"recommend --trace ../../examples/tutorial/sacct.psv --nodes 8 --scheduler fifo --set backfill=false" +
			" --recorded-scheduler fifo --plot DIR/figures.html",
		"explain dataset --trace sample --nodes 12 --scheduler tiresias --configs 8 --out " + runs +
			" --tiers-out " + tiers,
		"explain learn --data " + runs + " --tiers " + tiers + " --group segment --out " + graph +
			" --plot DIR/figures.html",
		"explain show " + graph + " --plot DIR/figures.html",
		"explain effects --data " + runs + " --tiers " + tiers + " --group segment --boosted=false --plot DIR/figures.html",
		"explain whatif --data " + runs + " --tiers " + tiers + " --group segment --boosted=false --set queues=3" +
			" --plot DIR/figures.html",
		"patterns scan --trace ../../examples/tutorial/sacct.psv --nodes 8 --plot DIR/figures.html",
		"lab recommend --trace sample --windows 2 --days 1 --nodes 4 --waste 10,20 --detected --plot DIR/figures.html",
		"lab patterns --trace sample --windows 1 --days 1 --prevalence 5,10 --nodes 4 --plot DIR/figures.html",
		"lab foresee --data " + runs + " --tiers " + tiers + " --boosted=false --plot DIR/figures.html",
		"lab held --trace sample --from 2017-10-10T00:00:00Z --to 2017-10-16T00:00:00Z --schedulers fifo --nodes 16" +
			" --plot DIR/figures.html",
	} {
		name, _, _ := strings.Cut(strings.Replace(command, graph+" ", "", 1), " --")
		name = strings.ReplaceAll(name, " ", "-")
		at := filepath.Join(dir, name)
		args := strings.Fields(strings.ReplaceAll(command, "DIR", at))
		if text, err := exec.Command("mkdir", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		run := program
		if args[0] == "lab" {
			run, args = lab, args[1:]
		}
		if text, err := exec.Command(run, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, text)
		}
		files, err := filepath.Glob(filepath.Join(at, "*.html"))
		if err != nil || len(files) == 0 && strings.Contains(command, "DIR") {
			t.Fatalf("%s writes no page: %v", command, err)
		}
		for _, file := range files {
			pages[name+" "+filepath.Base(file)] = file
		}
	}
	p := open(t, &service{pages: "file://"})
	for name, file := range pages {
		for _, width := range []int64{360, 1280, 2560} {
			t.Run(fmt.Sprintf("%s at %d px", name, width), func(t *testing.T) {
				p.t = t
				p.size(width, 800)
				p.visit("file://" + file)
				for _, fault := range js[[]string](p, layoutScript) {
					t.Error(fault)
				}
				for _, part := range js[[]string](p, belowScreen) {
					if width == 1280 {
						t.Errorf("the %s is not on the first screen", part)
					}
				}
				for _, fault := range p.takeFaults() {
					t.Error(fault)
				}
			})
		}
	}
}
