package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// issue asks for a token of service account default/robot.
func issue(w *world) *authenticationv1.TokenRequest {
	w.t.Helper()
	got, err := w.kub.CoreV1().ServiceAccounts("default").CreateToken(w.t.Context(), "robot",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// review is what a TokenReview says of a token.
func review(w *world, token string) authenticationv1.TokenReviewStatus {
	w.t.Helper()
	got, err := w.kub.AuthenticationV1().TokenReviews().Create(w.t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Status
}

func robot(w *world) {
	w.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := w.kub.CoreV1().ServiceAccounts("default").Create(w.t.Context(), sa, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestServiceAccountTokens(t *testing.T) {
	now := DefaultTime
	w := newWorld(t, Options{Seed: 3, Clock: func() time.Time { return now }})
	robot(w)
	got := issue(w)
	if want := now.Add(time.Hour); !got.Status.ExpirationTimestamp.Time.Equal(want) {
		t.Errorf("the token ends at %v, want %v", got.Status.ExpirationTimestamp, want)
	}
	status := review(w, got.Status.Token)
	if !status.Authenticated || status.User.Username != "system:serviceaccount:default:robot" {
		t.Errorf("the token's review: %+v", status)
	}
	if want := []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}; !slices.Equal(status.User.Groups, want) {
		t.Errorf("its groups: %q, want %q", status.User.Groups, want)
	}
	if forged := review(w, got.Status.Token[:len(got.Status.Token)-4]+"AAAA"); forged.Authenticated {
		t.Errorf("a token with another signature: %+v", forged)
	}
	if none := review(w, "secret"); none.Authenticated {
		t.Errorf("a token of nobody's: %+v", none)
	}
	now = now.Add(2 * time.Hour)
	if old := review(w, got.Status.Token); old.Authenticated {
		t.Errorf("an hour after its end: %+v", old)
	}
	now = now.Add(-2 * time.Hour)
	if err := w.kub.CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if gone := review(w, got.Status.Token); gone.Authenticated {
		t.Errorf("after its service account is gone: %+v", gone)
	}
}

// A token is a function of what it says: a world that is restored for a run of another seed is the same as one that
// was started with it.
func TestSameTokens(t *testing.T) {
	var first string
	for _, begun := range []uint64{5, 6} {
		w := newWorld(t, Options{Seed: begun})
		w.Reseed(5)
		if err := w.Restore(w.Store().Snapshot()); err != nil {
			t.Fatal(err)
		}
		robot(w)
		token := issue(w).Status.Token
		if first == "" {
			first = token
		} else if token != first {
			t.Errorf("two worlds of one seed gave\n%s\n%s", first, token)
		}
		w.Close()
	}
}

// Whoever knows the program does not know the key of a live world's tokens.
func TestLiveWorldsHaveTheirOwnTokenKeys(t *testing.T) {
	w := newWorld(t, Options{})
	robot(w)
	everybodys := issue(w).Status.Token
	w.Close()
	var keys []string
	for range 2 {
		w := newWorld(t, Options{Live: true})
		robot(w)
		if token := issue(w).Status.Token; !review(w, token).Authenticated {
			t.Error("a live world does not know its own token")
		}
		if review(w, everybodys).Authenticated {
			t.Error("a live world takes a token that was signed with the key of simulated ones")
		}
		_, doc := w.do(http.MethodGet, "/openid/v1/jwks", "", "", "Accept", "*/*")
		keys = append(keys, doc)
		w.Close()
	}
	if keys[0] == keys[1] {
		t.Errorf("two live worlds share a key: %s", keys[0])
	}
}

// Others can verify tokens by what the API server publishes.
func TestTokenKeysArePublished(t *testing.T) {
	w := newWorld(t, Options{})
	if _, doc := w.do(http.MethodGet, "/.well-known/openid-configuration", "", ""); !strings.Contains(doc, `"issuer":"`+DefaultIssuer+`"`) {
		t.Errorf("the issuer's document: %s", doc)
	}
	_, doc := w.do(http.MethodGet, "/openid/v1/jwks", "", "", "Accept", "*/*")
	var keys struct{ Keys []struct{ Kid, Alg string } }
	if err := json.Unmarshal([]byte(doc), &keys); err != nil {
		t.Fatal(err)
	}
	robot(w)
	head, err := base64.RawURLEncoding.DecodeString(strings.Split(issue(w).Status.Token, ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(keys.Keys) != 1 || !strings.Contains(string(head), keys.Keys[0].Kid) {
		t.Errorf("the published keys %v lack that of a token's head %s", keys, head)
	}
}

// A pod may be privileged, as in every cluster.
func TestPrivilegedPods(t *testing.T) {
	w := newWorld(t, Options{})
	p := pod("p")
	yes := true
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	if _, err := w.kub.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestLiveTimes(t *testing.T) {
	w := newWorld(t, Options{Live: true})
	before := time.Now().Add(-time.Second)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/hold"}}}
	created, err := w.kub.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := created.CreationTimestamp.Time; c.Before(before.Truncate(time.Second)) || c.After(time.Now()) {
		t.Errorf("created at %v, and it is %v", c, time.Now())
	}
	if err := w.kub.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted, err := w.kub.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Times have a grain of a second: pass its boundary, so that a time stamped anew would be another. The wall clock is
	// what is under test, so there is nothing to wait for but it.
	time.Sleep(time.Until(deleted.DeletionTimestamp.Add(time.Second)))
	deleted.Data = map[string]string{"k": "v"}
	updated, err := w.kub.CoreV1().ConfigMaps("default").Update(t.Context(), deleted, metav1.UpdateOptions{FieldManager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if !updated.DeletionTimestamp.Equal(deleted.DeletionTimestamp) {
		t.Errorf("an update moved the deletion from %v to %v", deleted.DeletionTimestamp, updated.DeletionTimestamp)
	}
	for _, f := range updated.ManagedFields {
		if f.Manager != "other" && !f.Time.Equal(created.ManagedFields[0].Time) {
			t.Errorf("another's update moved %s's time from %v to %v", f.Manager, created.ManagedFields[0].Time, f.Time)
		}
	}
}
