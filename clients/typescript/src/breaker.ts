// Keeps callers from asking what has failed of late. Pure: time is an argument, in milliseconds
// of a clock that never steps back.

const failures = 3; // in a row open it
const firstPauseMs = 1000, lastPauseMs = 4000; // each probe that fails doubles the pause

/** After three calls that failed in a row none is made for a second; then one is, as a probe.
 * When it fails too, the pause doubles, up to four seconds. */
export class Breaker {
  #failed = 0;
  #pauseMs = firstPauseMs;
  #until = 0;
  #probing = false;

  /** Whether a call may be made now. One that may must be followed by done or forget. */
  allow(nowMs: number): boolean {
    if (this.#failed < failures) return true;
    if (this.#probing || nowMs < this.#until) return false;
    this.#probing = true;
    return true;
  }

  /** How a call ended. */
  done(nowMs: number, succeeded: boolean): void {
    if (succeeded) {
      this.#failed = 0;
      this.#pauseMs = firstPauseMs;
      this.#probing = false;
      return;
    }
    if (this.#failed < failures) {
      this.#failed++;
      if (this.#failed === failures) this.#until = nowMs + this.#pauseMs;
    } else if (this.#probing) {
      this.#probing = false;
      this.#pauseMs = Math.min(2 * this.#pauseMs, lastPauseMs);
      this.#until = nowMs + this.#pauseMs;
    }
  }

  /** A call that says nothing about the server, because the caller gave it up. */
  forget(): void {
    this.#probing = false;
  }
}
