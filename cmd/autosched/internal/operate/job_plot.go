package operate

import (
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

// plotLoad draws a forecast of load.
func plotLoad(plot *cli.PlotFlag, scheduler string, x *pb.ForecastLoadResponse) error {
	return plot.Write(func() (*chart.Page, error) {
		if why := x.GetNoFuturesReason(); why != "" {
			return nil, fmt.Errorf("there is no forecast to draw: %s", why)
		}
		points := x.GetPoints()
		begin := points[0].GetSchedulerTime().AsTime()
		type band func(*pb.ForecastLoadResponse_Point) *pb.ForecastLoadResponse_Band
		draw := func(title string, slot int, of band) *chart.Chart {
			var middle, above, below []chart.Point
			for _, p := range points {
				h := p.GetSchedulerTime().AsTime().Sub(begin).Hours()
				middle = append(middle, chart.Point{X: h, Y: of(p).GetMiddle()})
				above = append(above, chart.Point{X: h, Y: of(p).GetHigh()})
				below = append(below, chart.Point{X: h, Y: of(p).GetLow()})
			}
			slices.Reverse(below)
			return &chart.Chart{Title: title, X: chart.Axis{Name: "hours"},
				Y: chart.Axis{Name: "GPUs", Include: []float64{0}},
				Layers: []chart.Layer{
					&chart.Area{Mark: chart.Mark{Name: "range of the futures", Color: chart.Series(slot).Fade(.2)},
						Points: append(above, below...)},
					&chart.Line{Mark: chart.Mark{Name: "middle", Color: chart.Series(slot)}, Points: middle}}}
		}
		last := points[len(points)-1]
		p, err := cli.NewPage("load: "+scheduler, false,
			fmt.Sprintf("In %.3g hours %g GPUs are in use and %g are waited for, in the middle of %d futures.",
				last.GetSchedulerTime().AsTime().Sub(begin).Hours(), last.GetBusyGpus().GetMiddle(),
				last.GetWaitingGpus().GetMiddle(), x.GetFutures()),
			func(w io.Writer) error { return printForecast(w, x) })
		if err != nil {
			return nil, err
		}
		if why := x.GetLimitedReason(); why != "" {
			p.Details = append(p.Details, why)
		}
		p.First = draw("GPUs in use", 0, (*pb.ForecastLoadResponse_Point).GetBusyGpus)
		p.Sections = []chart.Section{{Title: "GPUs waited for",
			Hint: "Simulated from " + cli.Instant(points[0].GetSchedulerTime()) + ".",
			Rows: []chart.Row{{Height: 320, Charts: []*chart.Chart{
				draw("", 1, (*pb.ForecastLoadResponse_Point).GetWaitingGpus)}}}}}
		return p, nil
	})
}

// qualityPage draws what came in each hour beside the band of its forecast.
func qualityPage(scheduler string, q *pb.ForecastQuality) (*chart.Page, error) {
	if why := q.GetNoGradeReason(); why != "" {
		return nil, fmt.Errorf("there is no forecast to draw: %s", why)
	}
	begin := q.GetStartTime().AsTime()
	type hour func(*pb.ForecastQuality_Hour) (*pb.ForecastQuality_Band, float64)
	draw := func(title, unit string, of hour) *chart.Chart {
		var came, middle, above, below []chart.Point
		for _, h := range q.GetHours() {
			band, v := of(h)
			x := h.GetStartTime().AsTime().Sub(begin).Hours()
			came, middle = append(came, chart.Point{X: x, Y: v}), append(middle, chart.Point{X: x, Y: band.GetMiddle()})
			above = append(above, chart.Point{X: x, Y: band.GetHigh()})
			below = append(below, chart.Point{X: x, Y: band.GetLow()})
		}
		slices.Reverse(below)
		return &chart.Chart{Title: title, X: chart.Axis{Name: "hours since " + cli.Instant(q.GetStartTime())},
			Y: chart.Axis{Name: unit, Include: []float64{0}},
			Layers: []chart.Layer{
				&chart.Area{Mark: chart.Mark{Name: "band of 80 %", Color: chart.Blue.Fade(.2)},
					Points: append(above, below...)},
				&chart.Line{Mark: chart.Mark{Name: "forecast", Color: chart.Blue}, Points: middle},
				&chart.Line{Mark: chart.Mark{Name: "came", Color: chart.Ink}, Points: came}}}
	}
	jobs := q.GetJobs()
	p, err := cli.NewPage("forecasts: "+scheduler, false, fmt.Sprintf("%s of %s came within the band of 80 %% of the "+
		"jobs that were forecast an hour ahead.", percentText(jobs.GetCoverage()),
		units.Plural(int(jobs.GetHourCount()), "hour")), func(w io.Writer) error { return printQuality(w, q, true) })
	if err != nil {
		return nil, err
	}
	if why := q.GetLimitedReason(); why != "" {
		p.Details = append(p.Details, why)
	}
	p.First = draw("Jobs of each hour", "jobs", func(h *pb.ForecastQuality_Hour) (*pb.ForecastQuality_Band, float64) {
		return h.GetJobs(), float64(h.GetCameJobs())
	})
	if q.GetGpuHours() != nil {
		work := draw("GPU-hours of these jobs", "GPU-hours",
			func(h *pb.ForecastQuality_Hour) (*pb.ForecastQuality_Band, float64) {
				return h.GetGpuHours(), h.GetCameGpuHours()
			})
		p.Sections = []chart.Section{{Title: "Work", Rows: []chart.Row{{Height: 320, Charts: []*chart.Chart{work}}}}}
	}
	return p, nil
}

// plotRows bounds the rows that a picture draws: colours tell no more apart.
const plotRows = 8

// plotTimeline draws the GPUs held by the first rows of a timeline.
func plotTimeline(plot *cli.PlotFlag, scheduler string, t *pb.Timeline) error {
	return plot.Write(func() (*chart.Page, error) {
		if len(t.GetRows()) == 0 {
			return nil, fmt.Errorf("there is no row to draw")
		}
		rows := t.GetRows()[:min(plotRows, len(t.GetRows()))]
		width := t.GetBucketDuration().AsDuration().Hours()
		draw := func(title string, of func(*pb.Timeline_Row) []float64) *chart.Chart {
			c := &chart.Chart{Title: title, X: chart.Axis{Name: "hours"},
				Y: chart.Axis{Name: "GPUs", Include: []float64{0}}}
			for i, r := range rows {
				var points []chart.Point
				for k, v := range of(r) {
					points = append(points, chart.Point{X: float64(k) * width, Y: v},
						chart.Point{X: float64(k+1) * width, Y: v})
				}
				c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Name: rowName(r), Color: chart.Series(i)},
					Points: points, Dash: chart.SeriesDash(i)})
			}
			return c
		}
		hint := "From " + cli.Instant(t.GetStartTime()) + "."
		if more := len(t.GetRows()) - len(rows); more > 0 {
			hint += fmt.Sprintf(" The text has %d more rows.", more)
		}
		p, err := cli.NewPage("timeline: "+scheduler, false,
			fmt.Sprintf("%s waited or ran in the %s from %s.", units.Plural(int(t.GetJobCount()), "job"),
				spanText(durationpb.New(t.GetEndTime().AsTime().Sub(t.GetStartTime().AsTime()))),
				cli.Instant(t.GetStartTime())),
			func(w io.Writer) error { return printTimeline(w, t) })
		if err != nil {
			return nil, err
		}
		p.First = draw("GPUs held", (*pb.Timeline_Row).GetBusyGpus)
		p.Details = append(p.Details, hint)
		if len(rows[0].GetWaitingGpus()) > 0 {
			p.Sections = []chart.Section{{Title: "GPUs waited for", Rows: []chart.Row{{Height: 340,
				Charts: []*chart.Chart{draw("", (*pb.Timeline_Row).GetWaitingGpus)}}}}}
		}
		return p, nil
	})
}
