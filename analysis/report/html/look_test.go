package html

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "keep what the page looks like as what it should look like, once it was looked at")

// small is a picture at a width of 160 pixels, each the mean of those that it stands for: fonts and their smoothing
// differ from machine to machine, what stands where does not.
func small(m image.Image) *image.Gray {
	const width = 160
	size := m.Bounds().Size()
	step := size.X / width
	out := image.NewGray(image.Rect(0, 0, width, size.Y/step))
	for y := range out.Rect.Dy() {
		for x := range width {
			var sum float64
			for j := range step {
				for i := range step {
					sum += float64(color.GrayModel.Convert(m.At(x*step+i, y*step+j)).(color.Gray).Y)
				}
			}
			out.SetGray(x, y, color.Gray{Y: uint8(sum / float64(step*step))})
		}
	}
	return out
}

// The page looks as it did when somebody looked at it. Of a small picture at most 3 % of the pixels may differ by more
// than a tenth of the scale: a chart that is empty or elsewhere is more, another font is not.
func TestLooksAsBefore(t *testing.T) {
	trace, result := everything(t, 900)
	b := open(t, write(t, trace, result, Options{Reference: trace}), 1280, 900)
	b.look()
	picture, err := png.Decode(bytes.NewReader(b.picture()))
	if err != nil {
		t.Fatal(err)
	}
	got, file := small(picture), filepath.Join("testdata", "page.png")
	if *rewrite {
		var out bytes.Buffer
		if err := png.Encode(&out, got); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want, ok := decoded.(*image.Gray)
	if !ok {
		t.Fatalf("%s is no picture in grey", file)
	}
	if d := math.Abs(float64(got.Rect.Dy()-want.Rect.Dy())) / float64(want.Rect.Dy()); d > 0.03 {
		t.Fatalf("the page is %d high, was %d", got.Rect.Dy(), want.Rect.Dy())
	}
	differ, pixels := 0, 0
	for y := range min(got.Rect.Dy(), want.Rect.Dy()) {
		for x := range want.Rect.Dx() {
			pixels++
			if math.Abs(float64(got.GrayAt(x, y).Y)-float64(want.GrayAt(x, y).Y)) > 25 {
				differ++
			}
		}
	}
	if share := float64(differ) / float64(pixels); share > 0.03 {
		t.Errorf("%.1f %% of the page look other than before: look at it (REPORT_SHOTS=DIR), and if it is right, keep it with -rewrite", 100*share)
	}
}
