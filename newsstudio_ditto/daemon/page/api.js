// Calls of the API, and the one way in which everything that goes wrong is told.

export class Refusal extends Error {
  constructor(status, what, hint) {
    super([what, hint].filter(Boolean).map((words) => `${words[0].toUpperCase()}${words.slice(1)}.`).join(" "));
    this.status = status;
  }
}

let askForToken = async () => {};
export function onTokenNeeded(ask) { askForToken = ask; }

export async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refusal(0, "The daemon does not answer", "see whether it still runs");
  }
  if (response.status === 401) {
    await askForToken();
    return call(path, options);
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({ what: `Answer ${response.status}`, hint: "" }));
  if (!response.ok) throw new Refusal(response.status, answer.what, answer.hint);
  return answer;
}

export async function openSession(token) {
  const response = await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  return response.ok;
}

// Watches a job until it ends; onChange gets it every time.
export function watch(jobId, onChange) {
  return new Promise((resolve, reject) => {
    const source = new EventSource(`/api/jobs/${jobId}/events`);
    source.addEventListener("progress", (event) => onChange(JSON.parse(event.data)));
    source.addEventListener("end", (event) => {
      source.close();
      const job = JSON.parse(event.data);
      onChange(job);
      resolve(job);
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) reject(new Refusal(0, "The daemon stopped answering", "reload the page"));
    });
  });
}

export function sizeInWords(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let index = 0;
  while (bytes >= 1000 && index < units.length - 1) { bytes /= 1000; index += 1; }
  return `${bytes.toFixed(index ? 1 : 0)} ${units[index]}`;
}
