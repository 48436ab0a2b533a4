"""The page in a real headless Chromium, with the keyboard, on a wide and on a narrow screen."""

import base64
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import pytest

from tests.daemon.conftest import TOKEN
from tests.daemon.running import ROOT, RunningDaemon, running_daemon, wav

selenium = pytest.importorskip("selenium", reason="needs selenium")

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

CLIP = ROOT / "newsstudio_ditto" / "bundled" / "demo" / "anchor.mp4"
SHOTS = os.environ.get("DITTO_SCREENSHOTS")
WAIT_S = 90


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    program = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        if os.environ.get("DITTO_REQUIRE_BROWSER") == "1":
            pytest.fail("DITTO_REQUIRE_BROWSER=1, but there is no chromium with its chromedriver")
        pytest.skip("needs chromium and chromedriver")
    options = ChromeOptions()
    options.binary_location = program
    for flag in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1100"),
        *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
        *("--autoplay-policy=no-user-gesture-required", "--mute-audio"),
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def page(browser: Chrome, daemon: RunningDaemon) -> Chrome:
    browser.set_window_size(1280, 1100)
    browser.get(daemon.url)
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "input[name=avatar]:checked"), "presenters")
    browser.get_log("browser")
    return browser


def wait(browser: Chrome, is_so: object, what: str) -> None:
    WebDriverWait(browser, WAIT_S).until(lambda _: is_so(), what)  # type: ignore[operator]


def words(browser: Chrome, name: str) -> str:
    return str(browser.find_element(By.ID, name).get_attribute("textContent"))


def shoot(browser: Chrome, name: str) -> None:
    """Keep a picture of the whole page, if someone wants to look at it."""
    if SHOTS:
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (Path(SHOTS) / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def complaints(browser: Chrome) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_speech_is_dropped_rendered_and_played(page: Chrome, tmp_path: Path) -> None:
    shoot(page, "start")
    speech = tmp_path / "speech.wav"
    speech.write_bytes(wav(1.0))
    page.find_element(By.ID, "speech-file").send_keys(str(speech))
    wait(page, lambda: page.find_element(By.ID, "preview").is_displayed(), "the speech can be heard")
    page.find_element(By.ID, "render").click()
    wait(page, lambda: page.find_element(By.ID, "result").is_displayed(), words(page, "problem"))
    play = "const v = document.getElementById('video'); v.muted = true; v.play(); return true"
    assert page.execute_script(play)
    state = "const v = document.getElementById('video'); return [v.currentTime, v.videoWidth, v.duration]"
    wait(page, lambda: page.execute_script(state)[0] > 0.3, "the video plays")
    assert page.execute_script(state)[1] == 128
    assert str(page.find_element(By.ID, "download").get_attribute("href")).endswith("?download=1")
    assert "25" not in words(page, "problem")
    shoot(page, "done")
    assert complaints(page) == []


def test_the_keyboard_alone_is_enough_and_everything_has_a_name(page: Chrome) -> None:
    keys = ActionChains(page)
    reached = []
    page.find_element(By.TAG_NAME, "body").click()
    for _ in range(25):
        keys.send_keys(Keys.TAB).perform()
        reached.append(page.execute_script("const e = document.activeElement; return e.id || e.name || e.tagName"))
    for name in ("avatar", "SUMMARY", "source", "speech-file", "render", "live"):
        assert name in reached, reached
    nameless = page.execute_script("""
        return [...document.querySelectorAll('button, input, textarea, select, a, video, audio, [role=region]')]
          .filter((e) => e.checkVisibility())
          .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.getAttribute('aria-labelledby')
                           || e.closest('figure')))
          .map((e) => e.outerHTML)""")
    assert nameless == []
    levels = page.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map((e) => e.tagName)")
    assert levels[0] == "H1"
    assert page.execute_script("return document.documentElement.lang") == "en"


def test_contrast_is_enough(page: Chrome) -> None:
    """Every text against the ground behind it, as WCAG AA asks: 4.5 to 1."""
    faint = page.execute_script("""
        const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
        const light = (c) => { const v = c / 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
        const bright = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
        const ground = (e) => { for (let n = e; n; n = n.parentElement) {
          const c = parse(getComputedStyle(n).backgroundColor); if (c.length === 3 || c[3] > 0.99) return c; }
          return [255, 255, 255]; };
        return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.disabled
            && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
          .map((e) => { const [a, b] = [bright(parse(getComputedStyle(e).color)), bright(ground(e))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)]; })
          .filter(([ratio]) => ratio < 4.5)""")
    assert faint == []


def test_a_telephone_shows_it_without_scrolling_sideways(page: Chrome) -> None:
    size = {"width": 360, "height": 780, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.find_element(By.CSS_SELECTOR, "#health summary").click()
        wait(page, lambda: page.find_elements(By.CSS_SELECTOR, "#health-rows tr"), "health")
        shoot(page, "phone")
        assert page.execute_script("return document.documentElement.scrollWidth") <= 360
        small = page.execute_script("""
            return [...document.querySelectorAll('button, .button')].filter((e) => e.checkVisibility())
              .filter((e) => e.getBoundingClientRect().height < 40).map((e) => e.id)""")
        assert small == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_packet_health_and_a_new_presenter(page: Chrome, tmp_path: Path) -> None:
    page.find_element(By.CSS_SELECTOR, "#health summary").click()
    wait(page, lambda: len(page.find_elements(By.CSS_SELECTOR, "#health-rows tr")) == 6, "six files")
    page.find_element(By.ID, "verify").click()
    wait(page, lambda: words(page, "health-rows").count("good") == 6, "six checksums")
    shoot(page, "health")
    page.find_element(By.CSS_SELECTOR, "#add summary").click()
    page.find_element(By.ID, "anchor-name").send_keys("fresh")
    page.find_element(By.ID, "anchor-file").send_keys(str(one_frame(tmp_path)))
    page.find_element(By.CSS_SELECTOR, "#anchor-form button").click()
    wait(page, lambda: page.find_elements(By.CSS_SELECTOR, "input[value=fresh]:checked"), words(page, "problem"))
    shoot(page, "added")
    assert complaints(page) == []


def one_frame(folder: Path) -> Path:
    """The demo's first frame, as a picture."""
    path = folder / "presenter.png"
    _, frame = cv2.VideoCapture(str(CLIP)).read()
    cv2.imwrite(str(path), frame)
    return path


def test_what_goes_wrong_is_said_in_words(page: Chrome, tmp_path: Path) -> None:
    page.find_element(By.ID, "render").click()
    wait(page, lambda: page.find_element(By.ID, "problem").is_displayed(), "a problem")
    assert "There is no speech yet" in words(page, "problem")
    text = tmp_path / "speech.wav"
    text.write_bytes(b"no sound at all" * 50)
    page.find_element(By.ID, "speech-file").send_keys(str(text))
    page.find_element(By.ID, "render").click()
    wait(page, lambda: "cannot be decoded" in words(page, "problem"), "the reason")
    shoot(page, "problem")


def test_a_speech_is_recorded_or_typed(page: Chrome) -> None:
    choose(page, "record")
    page.find_element(By.ID, "record").click()
    wait(page, lambda: words(page, "record").startswith("Stop"), "recording")
    time.sleep(1.5)
    shoot(page, "recording")
    page.find_element(By.ID, "record").click()
    wait(page, lambda: page.find_element(By.ID, "preview").is_displayed(), "the recording can be heard")
    page.find_element(By.ID, "render").click()
    wait(page, lambda: page.find_element(By.ID, "result").is_displayed(), words(page, "problem"))
    pytest.importorskip("hibari", reason="needs the extra 'speak'")
    choose(page, "type")
    before = page.find_element(By.ID, "video").get_attribute("src")
    page.find_element(By.ID, "text").send_keys("Good evening.")
    shoot(page, "typed")
    page.find_element(By.ID, "render").click()
    wait(page, lambda: page.find_element(By.ID, "video").get_attribute("src") != before, words(page, "problem"))
    assert complaints(page) == []


def choose(page: Chrome, source: str) -> None:
    page.find_element(By.CSS_SELECTOR, f"input[name=source][value={source}]").click()


def test_live_talk_plays_what_the_microphone_hears(page: Chrome) -> None:
    page.find_element(By.ID, "live").click()
    wait(page, lambda: page.find_element(By.ID, "mic").is_enabled(), words(page, "live-words"))
    played = "return document.getElementById('live-video').currentTime"
    wait(page, lambda: page.execute_script(played) > 0.5, "the idle presenter plays")
    page.find_element(By.ID, "mic").click()
    wait(page, lambda: words(page, "mic") == "Microphone off", words(page, "problem"))
    time.sleep(3)
    shoot(page, "live")
    page.find_element(By.ID, "mic").click()
    page.find_element(By.ID, "live").click()
    wait(page, lambda: words(page, "live-words").startswith("Ended. First frame after"), words(page, "live-words"))
    assert page.execute_script(played) > 1
    assert complaints(page) == []


def test_the_token_is_asked_for_once(browser: Chrome, filled_storage: Path, tiny_model: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(filled_storage, tmp_path / "storage", symlinks=True))
    with running_daemon(root, tiny_model, token=TOKEN) as daemon:
        browser.get(daemon.url)
        wait(browser, lambda: browser.find_element(By.ID, "token").is_displayed(), "the question")
        shoot(browser, "token")
        browser.find_element(By.ID, "token").send_keys("wrong" + Keys.ENTER)
        wait(browser, lambda: "not the token" in words(browser, "token-words"), "the refusal")
        browser.find_element(By.ID, "token").clear()
        browser.find_element(By.ID, "token").send_keys(TOKEN + Keys.ENTER)
        wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "input[name=avatar]:checked"), "presenters")
        pictures = "return [...document.images].every((i) => i.complete && i.naturalWidth > 0)"
        wait(browser, lambda: browser.execute_script(pictures), "previews")
        browser.get(f"{daemon.url}/docs")
        wait(browser, lambda: len(browser.find_elements(By.TAG_NAME, "section")) > 10, "the API")
        shoot(browser, "docs")
