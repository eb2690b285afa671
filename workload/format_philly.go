package workload

// phillyFormat is the public CSV derivative of the Microsoft Philly trace (Jeon
// et al., USENIX ATC 2019; data CC-BY-4.0 from msr-fiddle/philly-traces): wall
// clock times, a virtual cluster per job, no user and no status.
var phillyFormat = formatOf("philly", "Microsoft Philly jobs as CSV: RFC 3339 submit times, one virtual cluster per job", &table{
	required: []string{"job_id", "submit_time", "duration_s", "num_gpus"},
	optional: []string{"vc"},
	begin:    func(in *input, _ func(string) bool) { in.wallClock = !in.hasZero },
	row: func(r *csvRow) Job {
		return Job{ID: r.id(0), Submit: r.clock(1), Duration: r.duration(2), GPUs: r.gpus(3), Tenant: r.text(4)}
	},
})
