/* Failures that the user should know about, at the top of a component. Screen readers read them at once. */

import { Button } from "./controls";
import { Icon } from "./icons";

export function Notices({ texts, onDismiss }: { texts: readonly string[]; onDismiss?(): void }) {
  return (
    <div class="mirror-notices" role="alert" hidden={!texts.length}>
      {texts.length > 0 && <Icon name="warning" />}
      <div>
        {texts.map((text) => (
          <p key={text}>{text}</p>
        ))}
      </div>
      {texts.length > 0 && onDismiss && <Button label="Dismiss" icon="close" isIcon onClick={onDismiss} />}
    </div>
  );
}
