package operate

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestPrintGain: a gain is said where the whole range shows one, and each number says where it is from.
func TestPrintGain(t *testing.T) {
	for _, x := range []struct {
		low, high float64
		answer    string
	}{{1, 3, "it saves delay"}, {-3, -1, "it costs delay"}, {-1, 3, "no clear gain"}, {0, 3, "no clear gain"}} {
		var out strings.Builder
		band := func(low, high float64) *pb.TuningGain_Band {
			return &pb.TuningGain_Band{Low: low, Middle: (low + high) / 2, High: high}
		}
		g := &pb.TuningGain{Revision: 7, StartTime: &timestamppb.Timestamp{},
			EndTime: &timestamppb.Timestamp{Seconds: 3600}, JobCount: 2, JobHours: 9, DelayHours: 4,
			ReplayedDelayHours: band(3, 5), DefaultDelayHours: band(5, 7), SavedHours: band(x.low, x.high)}
		if err := printGain(&out, g); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"revision 7: " + x.answer + ",", "4.000 of 9.000, 2 jobs",
			"4.000 (3.000 to 5.000)", "6.000 (5.000 to 7.000)",
			"simulated, saved"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%g to %g lacks %q:\n%s", x.low, x.high, want, &out)
			}
		}
	}
	var out strings.Builder
	if err := printGain(&out, &pb.TuningGain{NoGainReason: "a rollout is under way"}); err != nil ||
		out.String() != "nothing is compared: a rollout is under way\n" {
		t.Errorf("%v %q", err, &out)
	}
}
