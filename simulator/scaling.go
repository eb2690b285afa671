package simulator

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
	// bert, yolov3, ncf: much to communicate for what they compute.
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
	return c[i-1] + float64((k-scalingGPUs[i-1])*slope)
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
