package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"
)

// Models are the performance models of a run: the cost of a restart and how
// much slower a job runs when spread. The zero value is not useful; start from
// DefaultModels.
type Models struct {
	// Restart is the time a resumed job holds its GPUs without progress.
	Restart func(gpus int) time.Duration
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

// DefaultModels: restart costs by GPU count as TitanSched charges them
// (18, 22, 29, 46 s; n/8 x 46 s above eight GPUs); skews from the tensor sizes
// in the Tiresias simulator; slowdowns rounded from the Pollux and Sia
// placement measurements on 50 Gb/s Ethernet (low-skew convolutional networks
// 1.1, communication-heavy ones 2.0). Weights give three in ten jobs to the
// communication-heavy classes; no public trace has the true share. Throughput
// on other numbers of GPUs is the table in scaling.go; loads and the speeds of
// pairs are Gavel's, measured on single V100s.
func DefaultModels() *Models {
	m := &Models{Restart: titanRestart, Classes: []Class{
		{Name: "vgg19", Skew: .717, Slowdown: 2.0, Util: .75, Weight: 8},
		{Name: "vgg16", Skew: .744, Slowdown: 2.0, Util: .75, Weight: 8},
		{Name: "vgg11", Skew: .774, Slowdown: 2.0, Util: .75, Weight: 7},
		{Name: "alexnet", Skew: .611, Slowdown: 2.0, Util: .75, Weight: 7},
		{Name: "resnet152", Skew: .060, Slowdown: 1.1, Util: .75, Weight: 14},
		{Name: "resnet101", Skew: .075, Slowdown: 1.1, Util: .75, Weight: 14},
		{Name: "resnet50", Skew: .112, Slowdown: 1.1, Util: .75, Weight: 14},
		{Name: "inception4", Skew: .044, Slowdown: 1.1, Util: .75, Weight: 14},
		{Name: "inception3", Skew: .138, Slowdown: 1.1, Util: .75, Weight: 14},
	}}
	m.Speed = scalingOf(m.Classes)
	m.pairsOf(gavelLoads())
	return m
}

func titanRestart(gpus int) time.Duration {
	switch {
	case gpus <= 1:
		return 18 * time.Second
	case gpus == 2:
		return 22 * time.Second
	case gpus < 8:
		return 29 * time.Second
	default:
		return time.Duration(gpus) * 46 * time.Second / 8
	}
}

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

// with a number of GPUs: models with equal digests give equal runs there,
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
		put(uint64(m.Restart(n)))
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

// scaling is the throughput of a class of models on a number of GPUs relative
// to one, with the batch growing along.
type scaling [len(scalingGPUs)]float64

// scalingGPUs are the numbers of GPUs at which throughput is tabulated.
var scalingGPUs = [...]float64{1, 2, 3, 4, 16}

// Means over models of the median over batch sizes, on T4 GPUs with 50 Gb/s
// Ethernet and as few nodes as the GPUs need, from the measurements published
// with AdaptDL for Pollux (Qiao et al., OSDI 2021; Apache License 2.0). Between
// 4 and 16 GPUs the line is straight: the dip that was measured there is the
// boundary between that cluster's nodes of four, which is for placement to
// model. It goes on beyond 16.
var (
	// cifar10 (ResNet-18), imagenet (ResNet-50), deepspeech2.
	scalesWell = scaling{1, 1.89, 2.70, 3.63, 10.89}
	// bert, yolov3, ncf: much communication for their computation.
	scalesBadly = scaling{1, 1.79, 2.47, 3.10, 5.37}
)

// at is the throughput on a number of GPUs. It grows with it.
func (c *scaling) at(gpus int) float64 {
	k := float64(gpus)
	if k <= scalingGPUs[0] {
		return c[0]
	}
	i := 1
	for i < len(scalingGPUs)-1 && k > scalingGPUs[i] {
		i++
	}
	slope := (c[i] - c[i-1]) / (scalingGPUs[i] - scalingGPUs[i-1])
	return c[i-1] + (k-scalingGPUs[i-1])*slope
}

// communicationHeavy is the slowdown when spread from which a class scales like
// the communication-heavy models. The two kinds lie at 1.1 and 2.0.
const communicationHeavy = 1.5

// scalingOf is Models.Speed of classes by the table.
func scalingOf(classes []Class) func(class, gpus int) float64 {
	kind := make([]*scaling, len(classes))
	for i := range classes {
		kind[i] = &scalesWell
		if classes[i].Slowdown >= communicationHeavy {
			kind[i] = &scalesBadly
		}
	}
	return func(class, gpus int) float64 { return kind[class].at(gpus) }
}

// Throughput of a class on a number of GPUs, relative to one.
func (m *Models) Throughput(class, gpus int) float64 {
	if m.Speed == nil {
		return float64(gpus)
	}
	return m.Speed(class, gpus)
}
