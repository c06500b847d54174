"""The schemas of Anthropic's client tools, which the client runs itself: bash, text editor, computer, memory.

A request names such a tool by its type alone, because Anthropic's models know its schema. A local model does not, so it
is offered as a function.
"""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject, is_integer

_PATH = "An absolute path."
_RANGE: Json = {
    "type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
    "description": "For view: the first and the last line, from 1; -1 is the end of the file.",
}  # fmt: skip
_POINT: Json = {
    "type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
    "description": "x and y in pixels, from the top left corner.",
}  # fmt: skip
_ACTIONS = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
    "screenshot", "cursor_position",
)  # fmt: skip
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")


def find_client_tool(tool: JsonObject) -> tuple[str, JsonObject] | None:
    """Return the description and the JSON Schema of a client tool; None if its type is not one."""
    kind = tool.get("type")
    name, _, version = kind.rpartition("_") if isinstance(kind, str) else ("", "", "")
    match name:
        case "bash":
            return _BASH
        case "text_editor":
            return _describe_text_editor(version)
        case "computer":
            return _describe_computer(tool, version)
        case "memory":
            return _MEMORY
        case _:
            return None


def _string(description: str) -> Json:
    return {"type": "string", "description": description}


def _object(required: list[Json], properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


_BASH = (
    "Runs a command in a persistent bash session and returns its output.",
    _object([], {
        "command": _string("The command to run. Required unless the session is restarted."),
        "restart": {"type": "boolean", "description": "Whether to restart the session instead of running a command."},
    }),
)  # fmt: skip
_EDITS: JsonObject = {
    "path": _string(_PATH),
    "file_text": _string("For create: the content of the file."),
    "old_str": _string("For str_replace: the text to replace, which must occur exactly once."),
    "new_str": _string("For str_replace: the new text."),
    "insert_line": {"type": "integer", "description": "For insert: the line after which the text is inserted."},
    "insert_text": _string("For insert: the text."),
    "view_range": _RANGE,
}
_MEMORY = (
    "Reads and changes files in /memories, which persist between conversations. Look there before you begin a task.",
    _object(["command"], {
        "command": {
            "type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            "description": "What to do.",
        },
        **_EDITS,
        "path": _string("A path below /memories; not for rename."),
        "old_path": _string("For rename: the present path."),
        "new_path": _string("For rename: the new path."),
    }),
)  # fmt: skip


def _describe_text_editor(version: str) -> tuple[str, JsonObject]:
    commands: list[Json] = ["view", "create", "str_replace", "insert"]
    properties: dict[str, Json] = {**_EDITS}
    if version < "20250429":  # these versions can undo, and insert `new_str`
        commands.append("undo_edit")
        del properties["insert_text"]
        properties["new_str"] = _string("For str_replace and insert: the new text.")
    command: Json = {"type": "string", "enum": commands, "description": "What to do."}
    return (
        "Views, creates and edits text files, and lists directories.",
        _object(["command", "path"], {"command": command, **properties}),
    )


def _describe_computer(tool: JsonObject, version: str) -> tuple[str, JsonObject]:
    actions: list[Json] = [*_ACTIONS]
    properties: dict[str, Json] = {
        "coordinate": _POINT,
        "text": _string("For type: the text; for key and hold_key: the keys, such as ctrl+s."),
    }
    if version >= "20250124":
        actions += _LATER_ACTIONS
        properties |= {
            "start_coordinate": _POINT,
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": {"type": "integer", "description": "For scroll: the number of clicks of the wheel."},
            "duration": {"type": "number", "description": "For wait and hold_key: seconds."},
        }
    if tool.get("enable_zoom") is True:
        actions.append("zoom")
        corners: Json = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        properties["region"] = corners
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    size = f" The screen has {width} x {height} pixels." if is_integer(width) and is_integer(height) else ""
    action: Json = {"type": "string", "enum": actions, "description": "What to do."}
    return (
        f"Uses the mouse and the keyboard of a computer and takes screenshots.{size}",
        _object(["action"], {"action": action, **properties}),
    )
