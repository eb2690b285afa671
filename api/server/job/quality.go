package job

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
)

// GetForecastQuality grades the forecasts of past hours.
func (s *Service) GetForecastQuality(ctx context.Context, req *pb.GetForecastQualityRequest) (*pb.ForecastQuality,
	error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	from, to, err := window(req.GetStartTime(), req.GetEndTime())
	if err != nil {
		return nil, err
	}
	q, err := s.o.Controller.ForecastQuality(ctx, id, from, to)
	if err != nil {
		return nil, err
	}
	out := &pb.ForecastQuality{SchedulerTime: unlessNever(q.At), NoGradeReason: q.Reason,
		LimitedReason: q.Limited}
	if q.Grades == nil {
		return out, nil
	}
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(q.Zero.Add(d)) }
	out.StartTime, out.EndTime, out.Method, out.Futures = at(q.From), at(q.To), q.Method.String(), int32(q.Futures)
	out.HorizonDuration = durationpb.New(time.Hour)
	out.Jobs = scoreToProto(q.Jobs.Forecasts, q.Jobs.Came, q.Jobs.WAPE, q.Jobs.Bias, q.Jobs.Coverage80, q.Jobs.MAE)
	if x := q.GPUHours; x != nil {
		out.GpuHours = scoreToProto(x.Forecasts, x.Came, x.WAPE, x.Bias, x.Coverage80, x.MAE)
	}
	for i := range q.Hours {
		h := &q.Hours[i]
		out.Hours = append(out.Hours, &pb.ForecastQuality_Hour{StartTime: at(h.At), CameJobs: int32(h.Came),
			Jobs: &pb.ForecastQuality_Band{Low: h.Jobs.Low, Middle: h.Jobs.Median, High: h.Jobs.High},
			GpuHours: &pb.ForecastQuality_Band{Low: h.GPUHours.Low, Middle: h.GPUHours.Median,
				High: h.GPUHours.High},
			CameGpuHours: h.CameGPUHours, OpenJobs: int32(h.Open)})
	}
	d := q.Durations
	out.Durations = &pb.ForecastQuality_Durations{SubmittedCount: int32(d.Submitted), PredictedCount: int32(d.Asked),
		OpenCount: int32(d.Open), ClassCount: int32(d.N), Accuracy: d.Accuracy, Confidence: d.Confidence,
		CalibrationError: d.ECE, EndedCount: int32(d.Drawn.N), Coverage: d.Drawn.Coverage, Wape: d.Drawn.WAPE,
		MedianRelativeError: d.Drawn.MedianError}
	return out, nil
}

func scoreToProto(hours int, came, wape, bias, coverage, mae float64) *pb.ForecastQuality_Score {
	out := &pb.ForecastQuality_Score{HourCount: int32(hours), Coverage: coverage, MeanAbsoluteError: mae}
	if came > 0 {
		out.Wape, out.Bias = new(wape), new(bias)
	}
	return out
}

// GetEnergy accounts for the energy of a scheduler's cluster.
func (s *Service) GetEnergy(ctx context.Context, req *pb.GetEnergyRequest) (*pb.EnergyAccount, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	from, to, err := window(req.GetStartTime(), req.GetEndTime())
	if err != nil {
		return nil, err
	}
	most := int(cmp.Or(req.GetJobCount(), 50))
	if most < 0 || most > 1000 {
		return nil, convert.Invalid("job_count", "%d is not from 1 to 1000", most)
	}
	q := controller.EnergyQuery{From: from, To: to}
	if s.o.Samples != nil {
		q.Measure = func(ctx context.Context, from, to time.Time, m *energy.GPUMeter) error {
			return s.o.Samples.Read(ctx, id, samples.Query{From: time.Duration(from.UnixNano()),
				To: time.Duration(to.UnixNano()), Resolution: samples.Fine}, func(one *telemetry.GPUSample) error {
				m.Add(one)
				return nil
			})
		}
	}
	e, err := s.o.Controller.Energy(ctx, id, q)
	if err != nil {
		return nil, err
	}
	out := &pb.EnergyAccount{SchedulerTime: unlessNever(e.At), UnknownReason: e.Reason}
	if r := e.Report; r != nil {
		out.StartTime, out.EndTime = timestamppb.New(r.From), timestamppb.New(r.To)
		out.Cluster, out.Jobs, out.Idle = amountToProto(&r.Cluster), amountToProto(&r.Jobs), amountToProto(&r.Idle)
		out.GpuHours, out.CapacityGpuHours, out.MeasuredGpuHours = r.GPUHours, r.Capacity, r.MeasuredGPUHours
		out.ActivityGpuHours, out.AssumedGpuModel = e.ByActivity, e.GPUModel
		out.Prices, out.Intensities, out.Notes = r.Prices, r.Intensities, r.Notes
		addUsers(id, out, r, most)
		for i := range r.Hourly {
			h := &r.Hourly[i]
			out.Hours = append(out.Hours, &pb.EnergyAccount_Hour{StartTime: timestamppb.New(h.At),
				PowerKw: bandToProto(h.Power), BusyGpus: h.GPUs, PriceUsdPerMwh: h.Price,
				IntensityGPerKwh: h.Intensity})
		}
		out.ConstantsVersion = int32(r.Version)
		for _, c := range r.Assumptions {
			out.Constants = append(out.Constants, &pb.EnergyAccount_Constant{Constant: c.Name,
				Value: bandToProto(c.Band), Unit: c.Unit, Source: c.Source})
		}
	}
	return out, nil
}

// addUsers adds tenants and jobs, those with most energy first.
func addUsers(id string, out *pb.EnergyAccount, r *energy.Report, most int) {
	tenants := slices.Clone(r.Tenants)
	slices.SortStableFunc(tenants, func(a, b energy.Tenant) int {
		return cmp.Compare(b.Energy.Middle, a.Energy.Middle)
	})
	for i := range tenants {
		t := &tenants[i]
		out.Tenants = append(out.Tenants, &pb.EnergyAccount_Tenant{Tenant: t.Name, JobCount: int32(t.Jobs),
			GpuHours: t.GPUHours, Amount: amountToProto(&t.Amount)})
	}
	jobs := slices.Clone(r.ByJob)
	slices.SortStableFunc(jobs, func(a, b energy.JobAmount) int {
		return cmp.Or(cmp.Compare(b.Energy.Middle, a.Energy.Middle), cmp.Compare(a.ID, b.ID))
	})
	out.MoreJobs = int32(max(0, len(jobs)-most))
	for i := range jobs[:min(most, len(jobs))] {
		j := &jobs[i]
		out.TopJobs = append(out.TopJobs, &pb.EnergyAccount_Job{Name: convert.JobName(id, j.ID),
			JobId: j.ID, Tenant: j.Tenant, GpuHours: j.GPUHours, MeasuredShare: j.Measured,
			Amount: amountToProto(&j.Amount)})
	}
}

func bandToProto(b energy.Band) *pb.EnergyBand {
	return &pb.EnergyBand{Low: b.Low, Middle: b.Middle, High: b.High}
}

func amountToProto(a *energy.Amount) *pb.EnergyAccount_Amount {
	return &pb.EnergyAccount_Amount{EnergyKwh: bandToProto(a.Energy), CostUsd: bandToProto(a.Cost),
		Co2Kg: bandToProto(a.CO2)}
}
