package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// Models are the performance models of a run: the cost of a restart and how
// much slower a job runs when spread. The zero value is not useful; start from
// DefaultModels.
type Models struct {
	// Restart is the time a resumed job holds its GPUs without progress, by their number and the bytes of memory
	// that the job asked for per GPU, 0 if that is not known.
	Restart func(gpus int, memory int64) time.Duration
	// Classes are the model classes, drawn by weight for jobs that name none.
	Classes []Class
	// Loads are the loads of jobs on shared GPUs, drawn by weight for jobs that
	// name none; without any, Class.Util is used.
	Loads []Load
	// Pair is the shares of their speeds alone that jobs of two loads have on the
	// same GPUs, 0 if they do not fit together; nil follows Load.Util.
	Pair func(a, b int) (float64, float64)
	// Speed is the throughput of a class on a number of GPUs relative to one GPU. It
	// does not fall with the number; nil is linear.
	Speed func(class, gpus int) float64
}

// Class is a model class: how its parameter tensors are distributed and the effect on
// its speed of spreading it over more nodes than needed.
type Class struct {
	Name string
	// Skew is the largest tensor's share of all parameters: the quantity that
	// Tiresias compares with its pack limit (Gu et al., NSDI 2019, 3.3).
	Skew float64
	// Slowdown is the factor on run time when spread, at least 1.
	Slowdown float64
	// Util is the share of a GPU's time that the class keeps it busy, alone.
	Util float64
	// Weight of the class when one is drawn, relative to the others.
	Weight int
}

// DefaultModels are the models of DefaultModelSpec.
func DefaultModels() *Models { return DefaultModelSpec().Models() }

// lottery draws the model of jobs that name none.
type lottery struct {
	names []string
	until []uint32 // sums of weights, up to and with each
	salt  string   // makes draws of a job from two lotteries independent
}

func (l *lottery) reset(salt string) {
	l.names, l.until, l.salt = l.names[:0], l.until[:0], salt
}

func (l *lottery) copyFrom(src *lottery) {
	l.names, l.until, l.salt = append(l.names[:0], src.names...), append(l.until[:0], src.until...), src.salt
}

func (l *lottery) add(name string, weight int) {
	total := uint32(weight)
	if n := len(l.until); n > 0 {
		total += l.until[n-1]
	}
	l.names, l.until = append(l.names, name), append(l.until, total)
}

// lotteries are the lotteries of the classes and of the loads.
func (m *Models) lotteries(classes, loads *lottery) {
	classes.reset("")
	for i := range m.Classes {
		classes.add(m.Classes[i].Name, m.Classes[i].Weight)
	}
	loads.reset("load")
	for i := range m.Loads {
		loads.add(m.Loads[i].Name, m.Loads[i].Weight)
	}
}

// draw finds the name of a job's model, or draws by weight from its key, so
// that recurring jobs agree.
func (l *lottery) draw(model, key string) int {
	if model != "" {
		if i := slices.Index(l.names, model); i >= 0 {
			return i
		}
	}
	if len(l.until) == 0 || l.until[len(l.until)-1] == 0 {
		return 0
	}
	h := fnv1a(fnv1a(fnv1a(fnvBasis, model), "\x00"), key)
	at := fnv1a(h, l.salt) % l.until[len(l.until)-1]
	return slices.IndexFunc(l.until, func(u uint32) bool { return at < u })
}

// fnv1a goes on with the FNV-1a hash of a text, which hash/fnv would have to be
// given as bytes.
func fnv1a(h uint32, text string) uint32 {
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}

const fnvBasis = 2166136261

// speedup is a class's speed on held GPUs over that on asked.
func (m *Models) speedup(class, asked, held int) float64 {
	if m.Speed == nil {
		return float64(held) / float64(asked)
	}
	return m.Speed(class, held) / m.Speed(class, asked)
}

// Digest is a hash of the models of a cluster with a number of GPUs: models with equal digests give equal runs there,
// wherever they come from. nil are the defaults, as in Options.
func (m *Models) Digest(gpus int) string {
	if m == nil {
		m = defaultModels
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %#v %#v\n", gpus, m.Classes, m.Loads)
	var b []byte
	put := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	for n := 1; n <= gpus; n++ {
		put(uint64(m.Restart(n, 0)))
	}
	for memory := int64(1 << 28); memory <= 1<<42; memory <<= 1 {
		if cost := m.Restart(1, memory); cost != m.Restart(1, 0) {
			put(uint64(memory))
			put(uint64(cost))
		}
	}
	for class := range m.Classes {
		for n := 1; n <= gpus; n++ {
			put(math.Float64bits(m.Throughput(class, n)))
		}
		h.Write(b)
		b = b[:0]
	}
	for x := range m.Loads {
		for y := range m.Loads {
			one, other := m.PairSpeeds(x, y)
			put(math.Float64bits(one))
			put(math.Float64bits(other))
		}
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// JobRestart is the cost of a restart of a job on a number of GPUs.
func (m *Models) JobRestart(j *workload.Job, gpus int) time.Duration {
	_, memory := j.PerGPU()
	return m.Restart(gpus, memory)
}

// communicationHeavy is the slowdown when spread from which a class scales like
// the communication-heavy models. The two kinds lie at 1.1 and 2.0.
const communicationHeavy = 1.5

// Throughput of a class on a number of GPUs, relative to one.
func (m *Models) Throughput(class, gpus int) float64 {
	if m.Speed == nil {
		return float64(gpus)
	}
	return m.Speed(class, gpus)
}
