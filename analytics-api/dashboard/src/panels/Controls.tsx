// Range, interval, time zone, filters.

import { useState } from 'preact/hooks';
import { serverNow } from '../clock';
import { offsetName, words } from '../format';
import { type Comparison, go, type PageLocation, pageLocation, zoomOut } from '../location';
import { addDays, dayOf, INTERVALS, type Interval, intervalsFor, PRESET_NAMES, PRESETS, type Range } from '../ranges';
import { ownZone, zonesByArea } from '../zones';
import type { Chosen } from './chosen';

export function Controls({ chosen }: { chosen: Chosen }) {
  const { range, interval, view } = chosen.location;
  const preset = 'preset' in range ? range.preset : null;
  const [open, setOpen] = useState(false);
  const custom = preset === null || open;
  const fitting = intervalsFor(chosen.range.lengthMs);
  return (
    <section class="controls" aria-label="Selection">
      <fieldset class="ranges">
        <legend class="unseen">Range</legend>
        {PRESETS.map((one) => (
          <label key={one} class="choice">
            <input
              type="radio"
              name="range"
              checked={preset === one && !open}
              onChange={() => {
                setOpen(false);
                go({ range: { preset: one }, interval: 'auto' });
              }}
            />
            <span>
              <span class="long">{PRESET_NAMES[one][0]}</span>
              <span class="short">{PRESET_NAMES[one][1]}</span>
            </span>
          </label>
        ))}
        <label class="choice">
          <input type="radio" name="range" checked={custom} onChange={() => setOpen(true)} />
          <span>Custom</span>
        </label>
      </fieldset>
      {view.name !== 'list' && (
        <label class="pick">
          <span>Interval</span>
          <select
            value={interval !== 'auto' && fitting.includes(interval) ? interval : 'auto'}
            onChange={(event) => go({ interval: event.currentTarget.value as Interval | 'auto' })}
          >
            <option value="auto">Auto ({chosen.interval})</option>
            {INTERVALS.map((one) => (
              <option key={one} value={one} disabled={!fitting.includes(one)}>
                {words(one)}
              </option>
            ))}
          </select>
        </label>
      )}
      {view.name === 'overview' && (
        <label class="pick">
          <span>Compare with</span>
          <select
            value={chosen.location.compare}
            onChange={(event) => go({ compare: event.currentTarget.value as Comparison })}
          >
            <option value="previous">Period before</option>
            <option value="year">A year before</option>
          </select>
        </label>
      )}
      <Zone />
      {custom && <Days key={JSON.stringify(range)} chosen={chosen} onDone={() => setOpen(false)} />}
      <Filters />
    </section>
  );
}

function Days({ chosen, onDone }: { chosen: Chosen; onDone: () => void }) {
  const { range, tz } = chosen.location;
  const today = dayOf(serverNow(), tz);
  const first = firstAndLast(range, tz, today);
  const [fromDay, setFrom] = useState(first.fromDay);
  const [toDay, setTo] = useState(first.toDay);
  const backward = fromDay > toDay;
  return (
    <form
      class="days"
      onSubmit={(event) => {
        event.preventDefault();
        if (backward || !fromDay || !toDay) return;
        onDone();
        go({ range: { fromDay, toDay }, interval: 'auto' });
      }}
    >
      <label class="pick">
        <span>From</span>
        <input
          type="date"
          required
          min="1970-01-01"
          max="2199-12-31"
          value={fromDay}
          onInput={(event) => setFrom(event.currentTarget.value)}
        />
      </label>
      <label class="pick">
        <span>To, included</span>
        <input
          type="date"
          required
          min="1970-01-01"
          max="2199-12-31"
          value={toDay}
          aria-invalid={backward}
          aria-describedby={backward ? 'backward' : undefined}
          onInput={(event) => setTo(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={backward}>
        Show
      </button>
      {backward && (
        <span id="backward" class="fault" role="alert">
          The first day is after the last.
        </span>
      )}
    </form>
  );
}

function firstAndLast(range: Range, tz: string, today: string): { fromDay: string; toDay: string } {
  if ('fromDay' in range) return range;
  if ('fromMs' in range) return { fromDay: dayOf(range.fromMs, tz), toDay: dayOf(range.toMs - 1, tz) };
  return { fromDay: addDays(today, -6), toDay: today };
}

/** By area, as a list of 400 is. The visitor's own, the chosen one and UTC come first. */
function Zone() {
  const { tz } = pageLocation.value;
  return (
    <label class="pick zone">
      <span>
        Time zone <small>{offsetName(serverNow(), tz)}</small>
      </span>
      <select value={tz} onChange={(event) => go({ tz: event.currentTarget.value })}>
        {[...new Set([ownZone(), tz, 'UTC'])].map((zone) => (
          <option key={zone} value={zone}>
            {zone.replaceAll('_', ' ')}
          </option>
        ))}
        {AREAS.map(([area, zones]) => (
          <optgroup key={area} label={area}>
            {zones.map((zone) => (
              <option key={zone} value={zone}>
                {zone.slice(area.length + 1).replaceAll('_', ' ')}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

const AREAS = zonesByArea();

const FILTERS: {
  name: keyof PageLocation & ('purpose' | 'modelId' | 'trust' | 'operator' | 'domain');
  label: string;
}[] = [
  { name: 'purpose', label: 'Purpose' },
  { name: 'modelId', label: 'Model' },
  { name: 'trust', label: 'Only' },
  { name: 'operator', label: 'Operator' },
  { name: 'domain', label: 'Domain' },
];

function Filters() {
  const active = FILTERS.filter(({ name }) => pageLocation.value[name] !== null);
  const { range } = pageLocation.value;
  const zoomed = 'fromMs' in range;
  if (active.length === 0 && !zoomed) return null;
  return (
    <ul class="filters" aria-label="Filters">
      {zoomed && (
        <li>
          <button type="button" onClick={zoomOut}>
            Zoom out <span aria-hidden="true">↩</span>
          </button>
        </li>
      )}
      {active.map(({ name, label }) => (
        <li key={name}>
          <button
            type="button"
            onClick={() => go({ [name]: null })}
            aria-label={`Remove filter: ${label} ${pageLocation.value[name]}`}
          >
            {label} <b>{pageLocation.value[name]}</b> <span aria-hidden="true">×</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
