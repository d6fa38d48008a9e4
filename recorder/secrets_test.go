package recorder_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

const planted = "hunter2-correct-horse-battery-staple"

// plant brings the secret into everything that may carry one, and returns the token that it was given.
func plant(t *testing.T, config *rest.Config, ns string) string {
	t.Helper()
	ctx := t.Context()
	c := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	secrets := c.CoreV1().Secrets(ns)
	coded := base64.StdEncoding.EncodeToString([]byte(planted))
	must[*corev1.Secret](t)(secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"v1","kind":"Secret","data":{"k":"` + coded + `"},"stringData":{"k":"` + planted + `"}}`,
		}},
		Data: map[string][]byte{"k": []byte(planted)}, StringData: map[string]string{"l": planted},
	}, metav1.CreateOptions{}))
	for patch, body := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data/m","value":"` + coded + `"},{"op":"add","path":"/data","value":{"k":"` + coded + `"}},{"op":"add","path":"/stringData","value":{"z":"` + planted + `"}}]`,
		types.MergePatchType:          `{"data":{"n":"` + coded + `"},"stringData":{"o":"` + planted + `"}}`,
		types.StrategicMergePatchType: `{"stringData":{"q":"` + planted + `"}}`,
	} {
		must[*corev1.Secret](t)(secrets.Patch(ctx, "s", patch, []byte(body), metav1.PatchOptions{}))
	}
	must[*corev1.Secret](t)(secrets.Apply(ctx, corev1ac.Secret("applied", ns).WithData(map[string][]byte{"k": []byte(planted)}), metav1.ApplyOptions{FieldManager: "a"}))
	must[*corev1.SecretList](t)(secrets.List(ctx, metav1.ListOptions{}))
	must[*corev1.Secret](t)(secrets.Get(ctx, "s", metav1.GetOptions{}))
	_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": planted}}, metav1.CreateOptions{})
	refused(t, metav1.StatusReasonAlreadyExists, err)
	must[*corev1.ServiceAccount](t)(c.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{}))
	token := must[*authenticationv1.TokenRequest](t)(c.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "sa", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})).Status.Token
	must[*authenticationv1.TokenReview](t)(c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{}))
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	return token
}

// everything is all text of a trace: the files as they are, and every value of every row.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info := must[fs.FileInfo](t)(d.Info()); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		text.Write(must[[]byte](t)(os.ReadFile(path)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range open(t, dir).Records(t.Context(), traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		b := must[[]byte](t)(json.Marshal(row))
		text.Write(b)
	}
	return text.String()
}

func TestSecretsStayOffTheDisk(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for _, include := range []bool{false, true} {
			name := contentType
			if include {
				name += ", included"
			}
			t.Run(name, func(t *testing.T) {
				config := live(t).Config()
				ns := newNamespace(t, config)
				r, client := startProxy(t, config, recorder.ProxyOptions{
					Capture: true, Options: recorder.Options{IncludeSecrets: include, Namespaces: []string{ns}},
				})
				client.ContentType = contentType
				watching, stop := context.WithCancel(t.Context())
				defer stop()
				c := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(client))
				w, err := c.CoreV1().Secrets(ns).Watch(watching, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				token := plant(t, client, ns)
				for range 2 { // the watch of the proxy's client, and the capture's
					awaitEvent(r, traces.Deleted, "secrets", "s")
				}
				r.end()
				text := everything(t, r.out)
				found := 0
				for _, secret := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted)), token} {
					// JSON within JSON within a row: quotes differ, the secret's own characters don't.
					if strings.Contains(text, secret) {
						found++
					}
				}
				if include && found != 3 {
					t.Errorf("with secrets included, %d of 3 forms are there: this test could not find them anyway", found)
				}
				if !include && found != 0 {
					t.Errorf("%d of 3 forms of the secret are in the trace", found)
				}
				if !include && !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("redacted:hmac-sha256:"))) {
					t.Error("no redacted value is in the trace")
				}
				if losses := open(t, r.out).Manifest().Losses; len(losses) > 0 {
					t.Errorf("losses: %+v", losses)
				}
			})
		}
	}
}
