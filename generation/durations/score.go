package durations

import "math"

// Score is how well the classes of some questions were predicted.
type Score struct {
	N        int     `json:"n"`
	Accuracy float64 `json:"accuracy"`
	// LogLoss is the mean of -ln of the probability given to the true class, at
	// least 1e-6.
	LogLoss float64 `json:"log_loss"`
	// Confidence is the mean probability of the class predicted: above the
	// accuracy, a predictor is too sure of itself, below it, not sure enough.
	Confidence float64 `json:"confidence"`
	// ECE is the expected calibration error: how far the probability of the class
	// predicted is from how often it was true, over fifteen bins of equal width
	// (Guo et al., ICML 2017).
	ECE float64 `json:"ece"`
}

// scorer adds up a Score.
type scorer struct {
	n              int
	right, loss    float64
	sure, hit, num [eceBins]float64
}

const (
	eceBins  = 15
	leastLog = 1e-6
)

func (s *scorer) add(p []float64, class int) {
	best := argmax(p)
	s.n++
	b := min(eceBins-1, max(0, int(p[best]*eceBins)))
	s.num[b]++
	s.sure[b] += p[best]
	if best == class {
		s.right++
		s.hit[b]++
	}
	s.loss -= math.Log(max(leastLog, p[class]))
}

func (s *scorer) score() Score {
	if s.n == 0 {
		return Score{}
	}
	n := float64(s.n)
	out := Score{N: s.n, Accuracy: s.right / n, LogLoss: s.loss / n}
	for b := range s.num {
		out.Confidence += s.sure[b] / n
		out.ECE += math.Abs(s.sure[b]-s.hit[b]) / n
	}
	return out
}

// argmax is the likeliest class, the shorter one of two.
func argmax(p []float64) int {
	best := 0
	for c := range p {
		if p[c] > p[best] {
			best = c
		}
	}
	return best
}
