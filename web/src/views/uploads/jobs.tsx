/** The uploads of this tab with what they do now, and the buttons that pause, continue and cancel them. */

import { Progress } from "../../components/badge";
import { ConfirmButton } from "../../components/confirm_button";
import { Section } from "../../components/page";
import * as format from "../../format";
import { dismiss, type Job, jobs } from "../../uploads/jobs";

export function JobList() {
  const all = jobs.value;
  if (all.length === 0) return null;
  return (
    <Section title="Uploads">
      <ul class="jobs">
        {all.map((job, index) => (
          <JobRow key={index} job={job} />
        ))}
      </ul>
    </Section>
  );
}

function JobRow({ job }: { readonly job: Job }) {
  const going = !job.ended && job.phase !== "paused";
  return (
    <li class="job">
      <div class="job-head">
        <strong class="wrap">{job.href ? <a href={job.href}>{job.name}</a> : job.name}</strong>
        <span class="faint">
          {job.kind}, {format.bytes(job.size)}
        </span>
      </div>
      {!job.ended && (
        <Progress
          label={`Upload of ${job.name}`}
          fraction={job.phase === "hashing" ? job.hashed : job.done / Math.max(1, job.size)}
          text={format.percent(job.phase === "hashing" ? job.hashed : job.done / Math.max(1, job.size))}
        />
      )}
      <p class={job.phase === "failed" ? "job-failed" : "job-state"} role={job.phase === "failed" ? "alert" : "status"}>
        {sentence(job)}
      </p>
      <div class="actions">
        {going && job.phase !== "registering" && (
          <button type="button" class="button" onClick={() => job.pause()}>
            Pause
          </button>
        )}
        {job.phase === "paused" && (
          <button type="button" class="button" onClick={() => void job.run()}>
            Continue
          </button>
        )}
        {job.phase === "failed" && (
          <button type="button" class="button" onClick={() => void job.run()}>
            Try again
          </button>
        )}
        {!job.ended && job.phase !== "registering" && (
          <ConfirmButton
            verb="Cancel"
            doing="Cancelling"
            what={`the upload of ${job.name}`}
            warning={`What has arrived of it (${format.bytes(job.done)}) is thrown away.`}
            act={async () => job.cancel()}
            keep="Go on"
            quiet
            why={null}
            onDone={() => undefined}
          />
        )}
        {job.ended && (
          <button type="button" class="button" onClick={() => dismiss(job)}>
            Remove from this list
          </button>
        )}
      </div>
    </li>
  );
}

/** What the upload does, in one sentence. */
function sentence(job: Job): string {
  const arrived = `${format.bytes(job.done)} of ${format.bytes(job.size)}`;
  switch (job.phase) {
    case "waiting":
      return "Begins.";
    case "hashing":
      return `Computes the digest of ${job.file.name}${speed(job)}.`;
    case "sending":
      return `${arrived} have arrived${speed(job)}${left(job)}.`;
    case "checking":
      return "All bytes have arrived; the service checks them.";
    case "lost":
      return `${arrived} have arrived. It goes on by itself: ${job.why ?? "the server does not answer."}`;
    case "paused":
      return `Paused; ${arrived} have arrived. ${job.why ?? ""}`;
    case "registering":
      return "The bytes are there; it gets its version.";
    case "done":
      return `Version ${job.version}. ${job.known ? "The service had these bytes: nothing was sent." : "Uploaded."}`;
    case "failed":
      return job.why ?? "It failed.";
    case "cancelled":
      return "Cancelled.";
  }
}

function speed(job: Job): string {
  return job.bytesPerSecond === null ? "" : `, ${format.bytes(job.bytesPerSecond)}/s`;
}

function left(job: Job): string {
  const seconds = job.secondsLeft;
  if (seconds === null) return "";
  if (seconds < 90) return `, ${Math.max(1, Math.round(seconds))} s left`;
  return `, ${Math.round(seconds / 60)} min left`;
}
