package studies

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

// number is a trial's number.
func number(t *pb.Trial) float64 {
	n, _ := strconv.ParseFloat(cli.ShortName(t.GetName()), 64) // 0 for none
	return n
}

// dots are trials where at says, those of best apart.
func dots(trials []*pb.Trial, best func(*pb.Trial) bool, name string, at func(i int) chart.Point) (out []chart.Layer) {
	for i, t := range trials {
		d := &chart.Dots{Mark: chart.Mark{Color: chart.Blue.Fade(.55), Tip: trialLine(t)},
			Points: []chart.Point{at(i)}}
		if best(t) {
			d.Color, d.Radius = chart.Orange, 4
			d.Name, name = name, ""
		}
		out = append(out, d)
	}
	return out
}

// historyPage draws the metric of each trial, and the best so far.
func historyPage(s *pb.Study, all *pb.ListTrialsResponse) (*chart.Page, error) {
	metric, maximize := s.GetSpec().GetMetricId(), s.GetSpec().GetGoal() == pb.StudySpec_MAXIMIZE
	best := s.GetBestTrial()
	var measured []*pb.Trial
	for _, t := range all.GetTrials() {
		if _, ok := t.GetFinalMeasurement().GetMetrics()[metric]; ok && t.GetState() == pb.Trial_SUCCEEDED {
			measured = append(measured, t)
		}
	}
	if len(measured) == 0 {
		return nil, errors.New("--plot: no trial has succeeded, so there is nothing to draw")
	}
	slices.SortFunc(measured, func(a, b *pb.Trial) int { return int(number(a) - number(b)) })
	var points []chart.Point
	for _, t := range measured {
		points = append(points, chart.Point{X: number(t), Y: t.GetFinalMeasurement().GetMetrics()[metric]})
	}
	p, err := cli.NewPage("study: "+cli.ShortStudy(s.GetName()), false,
		fmt.Sprintf("Trial %s has the best expected %s, and measured %.6g. Of %s, %d succeeded.",
			cli.ShortName(best.GetName()), metric, best.GetFinalMeasurement().GetMetrics()[metric],
			units.Plural(len(all.GetTrials()), "trial"), len(measured)),
		func(w io.Writer) error { return printTrials(w, all) })
	if err != nil {
		return nil, err
	}
	p.Facts = []chart.Fact{{Name: "Metric", Value: metricText(s.GetSpec())},
		{Name: "Best", Value: trialLine(best), Mono: true}}
	p.First = &chart.Chart{Title: metric + " by trial", X: chart.Axis{Name: "trial"}, Y: chart.Axis{Name: metric},
		Layers: append([]chart.Layer{&chart.Line{Mark: chart.Mark{Name: "best so far", Color: chart.Blue},
			Points: chart.BestSoFar(points, maximize)}},
			dots(measured, func(t *pb.Trial) bool { return t.GetName() == best.GetName() }, "best expected",
				func(i int) chart.Point { return points[i] })...)}
	return p, nil
}

// frontPage draws the trials by the first metric and each other one.
func frontPage(req *pb.ListOptimalTrialsRequest, best *pb.ListOptimalTrialsResponse, all *pb.ListTrialsResponse) (
	*chart.Page, error) {
	if len(req.GetObjectives()) < 2 {
		return nil, cli.Usage(errors.New("--plot: draws two metrics or more: name them by --objectives"))
	}
	var measured []*pb.Trial
	for _, t := range all.GetTrials() {
		has := func(o *pb.ListOptimalTrialsRequest_Objective) bool {
			_, ok := t.GetFinalMeasurement().GetMetrics()[o.GetMetricId()]
			return ok
		}
		if t.GetState() == pb.Trial_SUCCEEDED && !slices.ContainsFunc(req.GetObjectives(),
			func(o *pb.ListOptimalTrialsRequest_Objective) bool { return !has(o) }) {
			measured = append(measured, t)
		}
	}
	if len(best.GetOptimalTrials()) == 0 {
		return nil, errors.New("--plot: no trial with these metrics has succeeded, so there is nothing to draw")
	}
	unbeaten := func(t *pb.Trial) bool {
		return slices.ContainsFunc(best.GetOptimalTrials(),
			func(b *pb.Trial) bool { return b.GetName() == t.GetName() })
	}
	p, err := cli.NewPage("study: "+cli.ShortStudy(req.GetParent()), false,
		fmt.Sprintf("No other trial beats %d of %s in all metrics.", len(best.GetOptimalTrials()),
			units.Plural(len(measured), "trial")),
		func(w io.Writer) error { return printOptimal(w, best) })
	if err != nil {
		return nil, err
	}
	first := req.GetObjectives()[0]
	point := func(t *pb.Trial, y *pb.ListOptimalTrialsRequest_Objective) chart.Point {
		m := t.GetFinalMeasurement().GetMetrics()
		return chart.Point{X: m[first.GetMetricId()], Y: m[y.GetMetricId()]}
	}
	section := chart.Section{Title: "Other metrics", Hint: "A dot is a trial; those that no other beats are in orange."}
	for k, y := range req.GetObjectives()[1:] {
		f := chart.Front{Title: first.GetMetricId() + " and " + y.GetMetricId(), X: first.GetMetricId(),
			Y: y.GetMetricId(), MaxX: first.GetGoal() == pb.StudySpec_MAXIMIZE,
			MaxY: y.GetGoal() == pb.StudySpec_MAXIMIZE}
		for _, t := range measured {
			f.Points = append(f.Points, point(t, y))
		}
		var front []chart.Point
		for _, t := range best.GetOptimalTrials() {
			front = append(front, point(t, y))
		}
		c := f.Chart(front, func(at func(int) chart.Point) []chart.Layer {
			return dots(measured, unbeaten, "no other beats it", at)
		})
		if k == 0 {
			p.First = c
			continue
		}
		section.Rows = append(section.Rows, chart.Row{Height: 320, Charts: []*chart.Chart{c}})
	}
	if section.Rows != nil {
		p.Sections = []chart.Section{section}
	}
	return p, nil
}
