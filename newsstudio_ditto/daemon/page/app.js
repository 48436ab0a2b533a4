import { Refusal, call, onTokenNeeded, openSession, sizeInWords, watch } from "/static/api.js";
import { LiveTalk } from "/static/live.js";

const $ = (id) => document.getElementById(id);
const make = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

const state = { abilities: null, speech: null, jobId: null, talk: null, recorder: null };

function tellProblem(error) {
  $("problem").textContent = error instanceof Refusal ? error.message : `Something in this page failed: ${error.message}`;
  $("problem").hidden = false;
}

function guarded(action) {
  return async (event) => {
    $("problem").hidden = true;
    try {
      await action(event);
    } catch (error) {
      tellProblem(error);
    }
  };
}

// ---- token

onTokenNeeded(() => new Promise((resolve) => {
  const dialog = $("token-dialog");
  if (!dialog.open) dialog.showModal();
  $("token-form").onsubmit = async (event) => {
    event.preventDefault();
    if (await openSession($("token").value)) {
      dialog.close();
      resolve();
    } else {
      $("token-words").textContent = "That is not the token.";
    }
  };
}));

// ---- presenters

const chosenAvatar = () => document.querySelector("input[name=avatar]:checked")?.value;

function presenterCard(row, isChosen) {
  const card = make("label", "card");
  const radio = Object.assign(make("input"), { type: "radio", name: "avatar", value: row.avatarId, checked: isChosen, disabled: !row.ready });
  card.append(radio);
  if (row.ready) {
    card.append(Object.assign(make("img"), { src: `/api/presenter/avatars/${row.avatarId}/preview.jpg?${row.generation.slice(0, 8)}`, alt: "" }));
  } else {
    card.append(make("span", "blank"));
  }
  card.append(make("span", "name", row.avatarId));
  const length = row.numFrames === 1 ? "still" : `${row.numFrames} frames`;
  const words = row.ready ? `${length} · ${row.frameSize.replace("x", " × ")}` : `not ready: ${row.reason}`;
  card.append(make("span", row.ready ? "state" : "state bad", words));
  return card;
}

async function showPresenters(wanted = chosenAvatar()) {
  const rows = await call("/api/presenter/avatars");
  const box = $("presenters");
  box.querySelectorAll(".card").forEach((card) => card.remove());
  const chosen = rows.some((row) => row.avatarId === wanted && row.ready) ? wanted : rows.find((row) => row.ready)?.avatarId;
  rows.forEach((row) => box.append(presenterCard(row, row.avatarId === chosen)));
  $("no-presenters").hidden = rows.length > 0;
  $("add").open = rows.length === 0 || $("add").open;
  if ($("health").open) await showHealth();
}

async function showHealth(verify = false) {
  const avatarId = chosenAvatar();
  if (!avatarId) return;
  $("health-words").textContent = verify ? "Reading every byte…" : "";
  const status = await call(`/api/presenter/preprocess-avatar?avatarId=${avatarId}&engine=ditto&verify=${verify}`);
  $("health-words").textContent = status.ready
    ? `Ready. Generation ${status.generation.slice(0, 12)}.${status.stale?.length ? " Its clip or options have changed since." : ""}`
    : `Not ready: ${status.reason}`;
  $("health-rows").replaceChildren(...status.files.map((file) => {
    const row = make("tr");
    const name = make("th", "", file.fileName);
    name.scope = "row";
    const tensors = file.tensors.map((tensor) => `${tensor.name} ${tensor.dtype} ${tensor.shape.join("×")}`).join(", ");
    const isBad = Boolean(file.fault);
    row.append(name, make("td", "", file.present ? sizeInWords(file.numBytes) : "absent"),
      make("td", "wrap", file.fault || tensors), make("td", isBad ? "bad" : "good", file.checksum));
    return row;
  }));
}

async function addPresenter() {
  const avatarId = $("anchor-name").value;
  const body = new FormData();
  body.append("anchor", $("anchor-file").files[0]);
  tellJob({ name: `Preparing ${avatarId}`, words: "sending the clip…", percent: null });
  const job = await call(`/api/presenter/preprocess-avatar?avatarId=${avatarId}&engine=ditto`, { method: "POST", body })
    .catch((error) => { $("job").hidden = true; throw error; });
  const ended = await follow(job, `Preparing ${avatarId}`);
  if (ended.state !== "done") return;
  $("anchor-form").reset();
  $("add").open = false;
  await showPresenters(avatarId);
}

// ---- speech

const source = () => document.querySelector("input[name=source]:checked").value;

function showPane() {
  for (const name of ["file", "record", "type"]) $(`pane-${name}`).hidden = name !== source();
  $("preview").hidden = source() === "type" || !state.speech;
}

function chooseSpeech(blob, name) {
  state.speech = blob && { blob, name };
  if ($("preview").src) URL.revokeObjectURL($("preview").src);
  if (blob) $("preview").src = URL.createObjectURL(blob);
  showPane();
}

async function toggleRecording() {
  const button = $("record");
  if (state.recorder) {
    state.recorder.stop();
    return;
  }
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true }).catch((error) => {
    throw new Refusal(0, "The microphone cannot be used", error.message.replace(/\.$/, ""));
  });
  const pieces = [];
  const recorder = state.recorder = new MediaRecorder(microphone);
  const started = Date.now();
  const clock = setInterval(() => { $("record-time").textContent = `${((Date.now() - started) / 1000).toFixed(0)} s`; }, 250);
  recorder.ondataavailable = (event) => pieces.push(event.data);
  recorder.onstop = () => {
    clearInterval(clock);
    microphone.getTracks().forEach((track) => track.stop());
    state.recorder = null;
    button.textContent = "Start recording";
    button.setAttribute("aria-pressed", "false");
    const suffix = recorder.mimeType.includes("mp4") ? "m4a" : "webm";
    chooseSpeech(new Blob(pieces, { type: recorder.mimeType }), `recording.${suffix}`);
  };
  recorder.start();
  button.textContent = "Stop recording";
  button.setAttribute("aria-pressed", "true");
}

function speechForm() {
  const body = new FormData();
  body.append("avatarId", chosenAvatar());
  if (source() === "type") {
    if (!$("text").value.trim()) throw new Refusal(0, "There is no text yet", "type what the presenter says");
    body.append("text", $("text").value);
  } else {
    if (!state.speech) throw new Refusal(0, "There is no speech yet", "choose a file or record one");
    body.append("speech", state.speech.blob, state.speech.name);
  }
  return body;
}

// ---- jobs

function tellJob({ name, words, percent }) {
  $("job").hidden = false;
  $("job-name").textContent = name;
  $("job-words").textContent = words;
  if (percent === null) $("job-bar").removeAttribute("value");
  else $("job-bar").value = percent;
}

function jobInWords(job) {
  if (job.state === "queued") return "waiting for its turn";
  if (job.state !== "running") return job.state;
  const left = job.etaS === null ? "" : `, ${Math.ceil(job.etaS)} s left`;
  const speed = job.fps ? `, ${job.fps.toFixed(job.fps < 10 ? 1 : 0)} frames a second` : "";
  return `${job.stage.replace("_", " ")} ${job.percent.toFixed(0)} %${speed}${left}`;
}

async function follow(job, name) {
  state.jobId = job.id;
  $("cancel").hidden = false;
  const ended = await watch(job.id, (now) => tellJob({ name, words: jobInWords(now), percent: now.state === "queued" ? null : now.percent }));
  state.jobId = null;
  $("cancel").hidden = true;
  if (ended.state === "failed" || ended.state === "interrupted") throw new Refusal(0, ended.what, ended.hint);
  return ended;
}

async function renderSpeech() {
  const avatarId = chosenAvatar();
  if (!avatarId) throw new Refusal(0, "There is no presenter yet", "add one first");
  const body = speechForm();
  $("render").disabled = true;
  try {
    tellJob({ name: `${avatarId}'s video`, words: "sending the speech…", percent: null });
    const job = await call("/api/presenter/render", { method: "POST", body })
      .catch((error) => { $("job").hidden = true; throw error; });
    const ended = await follow(job, `${avatarId}'s video`);
    if (ended.state === "done") showVideo(ended);
  } finally {
    $("render").disabled = false;
  }
}

function showVideo(job) {
  $("no-video").hidden = true;
  $("result").hidden = false;
  $("video").src = job.video;
  $("download").href = `${job.video}?download=1`;
  const { num_frames: frames, fps, device } = job.result;
  $("result-words").textContent = `${(frames / 25).toFixed(1)} s, made at ${fps.toFixed(fps < 10 ? 1 : 0)} frames a second on ${device}`;
  $("video").focus();
}

// ---- live

function showLive(isLive) {
  $("live").textContent = isLive ? "End" : "Go live";
  $("live").setAttribute("aria-pressed", String(isLive));
  $("mic").disabled = $("say").disabled = !isLive;
  $("mic").textContent = "Microphone on";
  $("mic").setAttribute("aria-pressed", "false");
  if (isLive) $("live-video").hidden = false;
}

async function toggleLive() {
  if (state.talk) {
    await state.talk.stop();
    return;
  }
  const avatarId = chosenAvatar();
  if (!avatarId) throw new Refusal(0, "There is no presenter yet", "add one first");
  $("live-words").textContent = "Opening…";
  const talk = new LiveTalk($("live-video"), (words) => { $("live-words").textContent = words; });
  $("live").disabled = true;
  try {
    await talk.start(avatarId);
  } catch (error) {
    $("live-words").textContent = "";
    throw new Refusal(0, error.message.replace(/\.$/, ""), "");
  } finally {
    $("live").disabled = false;
  }
  state.talk = talk;
  showLive(true);
  talk.ended.then(() => { state.talk = null; showLive(false); });
}

async function toggleMicrophone() {
  const isOn = !state.talk.microphone;
  if (isOn) await state.talk.startMicrophone();
  else state.talk.stopMicrophone();
  $("live-video").muted = isOn; // or the presenter would hear itself
  $("mic").textContent = isOn ? "Microphone off" : "Microphone on";
  $("mic").setAttribute("aria-pressed", String(isOn));
}

async function sayChosen() {
  if (!state.speech) throw new Refusal(0, "There is no speech yet", "choose a file or record one");
  $("live-video").muted = false;
  $("say").disabled = true;
  try {
    await state.talk.say(state.speech.blob);
  } finally {
    $("say").disabled = !state.talk;
  }
}

// ---- start

function connect() {
  $("presenters").addEventListener("change", guarded(() => ($("health").open ? showHealth() : null)));
  $("health").addEventListener("toggle", guarded(() => ($("health").open ? showHealth() : null)));
  $("verify").addEventListener("click", guarded(() => showHealth(true)));
  $("anchor-form").addEventListener("submit", (event) => { event.preventDefault(); guarded(addPresenter)(event); });
  document.querySelectorAll("input[name=source]").forEach((radio) => radio.addEventListener("change", showPane));
  $("speech-file").addEventListener("change", () => chooseSpeech($("speech-file").files[0], $("speech-file").files[0]?.name));
  $("record").addEventListener("click", guarded(toggleRecording));
  $("text").addEventListener("input", () => { $("text-left").textContent = state.abilities.longestTextChars - $("text").value.length; });
  $("render").addEventListener("click", guarded(renderSpeech));
  $("cancel").addEventListener("click", guarded(() => state.jobId && call(`/api/jobs/${state.jobId}/cancel`, { method: "POST" })));
  $("live").addEventListener("click", guarded(toggleLive));
  $("mic").addEventListener("click", guarded(toggleMicrophone));
  $("say").addEventListener("click", guarded(sayChosen));
  const drop = $("drop");
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) chooseSpeech(event.dataTransfer.files[0], event.dataTransfer.files[0].name);
  });
}

guarded(async () => {
  connect();
  const abilities = state.abilities = await call("/api/presenter/capabilities");
  const devices = abilities.devices.map((device) => `${device.name} (${device.fps.toFixed(device.fps < 10 ? 1 : 0)} fps)`).join(", ");
  $("machine").textContent = `Model ${abilities.model} on ${devices}`;
  $("type-choice").hidden = !abilities.typing;
  $("text").maxLength = abilities.longestTextChars;
  $("text-left").textContent = abilities.longestTextChars;
  showPane();
  await showPresenters();
})();
